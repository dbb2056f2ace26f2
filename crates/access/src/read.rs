//! Rules as they are written in TOML: every mistake of every rule, with its place.
//!
//! The form of a setting and its meaning are checked together, so that one round of corrections is enough.

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::rule::Setting;
use crate::rules::MOST_RULES;
use crate::{OneOrMany, Rule, RuleSpec, WhoSpec};

/// A mistake in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// Its first byte in the text.
    pub at: usize,
    /// The error.
    pub message: String,
}

/// The rules of a list that can be used, and the mistakes of all others.
#[must_use]
pub fn read_rules(list: &Spanned<DeValue<'_>>) -> (Vec<RuleSpec>, Vec<Mistake>) {
    let mut read = Read::default();
    match list.get_ref() {
        DeValue::Array(rules) if rules.len() > MOST_RULES => {
            let message = format!("{} rules; at most {MOST_RULES} are allowed", rules.len());
            read.wrong(list, message);
        }
        DeValue::Array(rules) => {
            for (rule, number) in rules.iter().zip(1..) {
                read.rule(rule, number);
            }
        }
        other => {
            let message = format!("`rules` must be a list, found a {}", other.type_str());
            read.wrong(list, message);
        }
    }
    (read.rules, read.mistakes)
}

#[derive(Default)]
struct Read {
    rules: Vec<RuleSpec>,
    names: BTreeSet<String>,
    mistakes: Vec<Mistake>,
}

impl Read {
    fn wrong<T>(&mut self, place: &Spanned<T>, message: String) {
        let at = place.span().start;
        self.mistakes.push(Mistake { at, message });
    }

    fn rule(&mut self, rule: &Spanned<DeValue<'_>>, number: usize) {
        let DeValue::Table(table) = rule.get_ref() else {
            let found = rule.get_ref().type_str();
            self.wrong(
                rule,
                format!("rule `{number}` must be a table, found a {found}"),
            );
            return;
        };
        let mut settings = Settings::default();
        settings.read(table);
        let Settings {
            spec,
            unreadable,
            places,
            mistakes,
        } = settings;
        let label = spec.label(number);
        let before = self.mistakes.len();
        let wrong = |at: usize, message: &str| Mistake {
            at,
            message: format!("rule `{label}`: {message}"),
        };
        let begin = rule.span().start;
        let place = |setting: Setting| places.get(&setting).copied().unwrap_or(begin);
        let form = mistakes.iter().map(|it| wrong(it.at, &it.message));
        self.mistakes.extend(form);
        let meaning = Rule::new(&spec).err().unwrap_or_default().into_iter();
        let meaning = meaning.filter(|(setting, _)| !unreadable.contains(setting));
        self.mistakes
            .extend(meaning.map(|(setting, message)| wrong(place(setting), &message)));
        if !spec.name.is_empty() && !self.names.insert(spec.name.clone()) {
            let at = place(Setting::Name);
            self.mistakes.push(wrong(at, "two rules have this name"));
        }
        if self.mistakes.len() == before {
            self.rules.push(spec);
        }
    }
}

/// The settings of one rule.
#[derive(Default)]
struct Settings {
    spec: RuleSpec,
    /// Settings that have a value of another type, about which nothing else can be concluded.
    unreadable: BTreeSet<Setting>,
    places: BTreeMap<Setting, usize>,
    mistakes: Vec<Mistake>,
}

impl Settings {
    fn read(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            let setting = match key.get_ref().as_ref() {
                "name" => Setting::Name,
                "who" => Setting::Who,
                "may" => Setting::May,
                "where" => Setting::Where,
                other => {
                    let message = format!(
                        "unknown field `{other}`, expected one of `name`, `who`, `may`, `where`"
                    );
                    self.wrong(key, message);
                    continue;
                }
            };
            self.places.insert(setting, value.span().start);
            match setting {
                Setting::Name => self.spec.name = self.text(setting, "name", value),
                Setting::Who => self.who(value),
                Setting::May => self.spec.may = self.texts(setting, "may", value),
                Setting::Where => self.spec.condition = self.text(setting, "where", value),
            }
        }
    }

    fn who(&mut self, value: &Spanned<DeValue<'_>>) {
        let DeValue::Table(table) = value.get_ref() else {
            self.other(
                Setting::Who,
                "who",
                value,
                "a table such as { role = \"operator\" }",
            );
            return;
        };
        let mut who = WhoSpec::default();
        for (key, value) in table {
            let texts = match key.get_ref().as_ref() {
                "subject" => &mut who.subject,
                "role" => &mut who.role,
                "tenant" => &mut who.tenant,
                other => {
                    let message = format!(
                        "unknown field `{other}`, expected one of `subject`, `role`, `tenant`"
                    );
                    self.wrong(key, message);
                    self.unreadable.insert(Setting::Who);
                    continue;
                }
            };
            let name = format!("who.{}", key.get_ref());
            *texts = self.texts(Setting::Who, &name, value);
        }
        // Only what is left without a readable key seems to be missing.
        if [&who.subject, &who.role, &who.tenant]
            .iter()
            .any(|it| !it.is_empty())
        {
            self.unreadable.remove(&Setting::Who);
        }
        self.spec.who = who;
    }

    fn text(&mut self, setting: Setting, name: &str, value: &Spanned<DeValue<'_>>) -> String {
        match value.get_ref().as_str() {
            Some(text) => text.to_owned(),
            None => {
                self.other(setting, name, value, "a text");
                String::new()
            }
        }
    }

    fn texts(&mut self, setting: Setting, name: &str, value: &Spanned<DeValue<'_>>) -> OneOrMany {
        const WANTED: &str = "a text or a list of texts";
        match value.get_ref() {
            DeValue::String(text) => OneOrMany::One(text.to_string()),
            DeValue::Array(elements) => {
                let mut texts = Vec::with_capacity(elements.len());
                for element in elements.iter() {
                    match element.get_ref().as_str() {
                        Some(text) => texts.push(text.to_owned()),
                        None => self.other(setting, name, element, WANTED),
                    }
                }
                if !texts.is_empty() {
                    self.unreadable.remove(&setting);
                }
                OneOrMany::Many(texts)
            }
            _ => {
                self.other(setting, name, value, WANTED);
                OneOrMany::default()
            }
        }
    }

    /// The value has another type.
    fn other(&mut self, setting: Setting, name: &str, value: &Spanned<DeValue<'_>>, wanted: &str) {
        let found = value.get_ref().type_str();
        self.wrong(
            value,
            format!("`{name}` must be {wanted}, found a value of type {found}"),
        );
        self.unreadable.insert(setting);
    }

    fn wrong<T>(&mut self, place: &Spanned<T>, message: String) {
        let at = place.span().start;
        self.mistakes.push(Mistake { at, message });
    }
}
