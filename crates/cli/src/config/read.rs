//! Reads the file: section by section, so that one mistake does not hide the next.

use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use stateway_model::ProviderId;
use stateway_provider_api::{Capabilities, UnknownCapability};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer};

use super::{
    Access, Audit, Authentication, Kind, Limits, Log, Otlp, Problem, Quotas, Server, Watch,
};

/// A file as it stands, before defaults. Has no `Debug`: options of providers may be secrets.
#[derive(Default)]
pub(super) struct File {
    pub(super) server: Server,
    pub(super) authentication: Authentication,
    pub(super) access: Access,
    pub(super) audit: Option<Audit>,
    pub(super) quotas: Quotas,
    pub(super) watch: Watch,
    pub(super) limits: Limits,
    pub(super) log: Log,
    pub(super) otlp: Otlp,
    pub(super) providers: Vec<Provider>,
}

/// `[providers.<id>]`.
pub(super) struct Provider {
    pub(super) id: ProviderId,
    pub(super) kind: Kind,
    pub(super) table: Option<String>,
    pub(super) limits: Limits,
    pub(super) disable: Vec<String>,
    pub(super) options: toml::Table,
}

const SECTIONS: &str = "`server`, `authentication`, `access`, `audit`, `quotas`, `watch`, `limits`, `log`, `otlp` or `providers`";

type Entry<'i> = (Spanned<std::borrow::Cow<'i, str>>, Spanned<DeValue<'i>>);

/// The values of the file, and all its errors.
pub(super) fn read(path: &Path, text: &str) -> (File, Vec<Problem>) {
    let mut reader = Reader {
        path,
        text,
        problems: Vec::new(),
    };
    let (document, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        reader.note(error);
    }
    let mut file = File::default();
    // Errors after a syntax error are guesses of the parser and would confuse.
    if errors.is_empty() {
        for entry in document.into_inner() {
            reader.section(&mut file, entry);
        }
    }
    reader.problems.sort_by_key(|problem| problem.place);
    (file, reader.problems)
}

struct Reader<'i> {
    path: &'i Path,
    text: &'i str,
    problems: Vec<Problem>,
}

impl<'i> Reader<'i> {
    fn note(&mut self, error: &toml::de::Error) {
        let at = error.span().map_or(0, |span| span.start);
        self.wrong(at, error.message().to_owned());
    }

    fn wrong(&mut self, at: usize, message: String) {
        self.problems
            .push(Problem::at(self.path, self.text, at, message));
    }

    fn section(&mut self, file: &mut File, (key, value): Entry<'i>) {
        match key.get_ref().as_ref() {
            "server" => file.server = self.typed(value),
            "authentication" => file.authentication = self.typed(value),
            "access" => file.access = self.access(value),
            "audit" => {
                let span = value.span();
                let table = self.table(value).into_inner();
                file.audit = self.single(Spanned::new(span, DeValue::Table(table)));
            }
            "quotas" => file.quotas = self.typed(value),
            "watch" => file.watch = self.typed(value),
            "limits" => file.limits = self.typed(value),
            "log" => file.log = self.typed(value),
            "otlp" => file.otlp = self.typed(value),
            "providers" => {
                for entry in self.table(value).into_inner() {
                    file.providers.extend(self.provider(entry));
                }
            }
            other => {
                let message = format!("unknown section `{other}`, expected {SECTIONS}");
                self.wrong(key.span().start, message);
            }
        }
    }

    /// The rules are read apart: their reader reports every mistake of every rule.
    fn access(&mut self, value: Spanned<DeValue<'i>>) -> Access {
        let span = value.span();
        let mut table = self.table(value);
        let rules = table.get_mut().remove("rules");
        let table = DeValue::Table(table.into_inner());
        let mut access: Access = self.typed(Spanned::new(span, table));
        if let Some(rules) = rules {
            let (specs, mistakes) = stateway_access::read_rules(&rules);
            for mistake in mistakes {
                self.wrong(mistake.at, mistake.message);
            }
            access.rules = specs;
        }
        access
    }

    fn provider(&mut self, (key, value): Entry<'i>) -> Option<Provider> {
        let id: Result<ProviderId, _> = key.get_ref().parse();
        if let Err(error) = &id {
            self.wrong(key.span().start, error.to_string());
        }
        let mut table = self.table(value);
        let entries = table.get_mut();
        let kind = entries.remove("kind");
        let overlay = entries.remove("table");
        let limits = entries.remove("limits");
        let disable = entries.remove("disable");
        let kind = self.kind(key.span().start, kind);
        let overlay = overlay.and_then(|value| self.single::<String>(value));
        let limits = limits.map(|value| self.typed(value)).unwrap_or_default();
        let disable = disable.map(|value| self.capabilities(value));
        let options = self.options(kind?, table);
        Some(Provider {
            id: id.ok()?,
            kind: kind?,
            table: overlay,
            limits,
            disable: disable.unwrap_or_default(),
            options,
        })
    }

    /// The names in `disable`, each with its place in the file.
    fn capabilities(&mut self, value: Spanned<DeValue<'i>>) -> Vec<String> {
        let names = self.single::<Vec<Spanned<String>>>(value);
        let mut known = Vec::new();
        for name in names.unwrap_or_default() {
            if Capabilities::ALL.without(name.get_ref()).is_some() {
                known.push(name.into_inner());
            } else {
                let error = UnknownCapability(name.get_ref().clone());
                self.wrong(name.span().start, error.to_string());
            }
        }
        known
    }

    fn kind(&mut self, provider: usize, value: Option<Spanned<DeValue<'i>>>) -> Option<Kind> {
        let Some(value) = value else {
            self.wrong(
                provider,
                "a provider needs a `kind`, for example kind = \"memory\"".into(),
            );
            return None;
        };
        let at = value.span().start;
        let word = self.single::<String>(value)?;
        match word.parse() {
            Ok(kind) => Some(kind),
            Err(error) => {
                self.wrong(at, format!("{error}"));
                None
            }
        }
    }

    fn options(&mut self, kind: Kind, mut table: Spanned<DeTable<'i>>) -> toml::Table {
        let mut left = culprits(table.get_ref());
        while let Err(error) = kind.check(table.clone()) {
            self.note(&error);
            if left == 0 || !without_culprit(table.get_mut(), &error) {
                return toml::Table::new();
            }
            left -= 1;
        }
        toml::Table::deserialize(Deserializer::from(table)).unwrap_or_default()
    }

    /// Reads a section. After a mistake the key at fault is set aside and the rest is read again,
    /// so that every mistake of the section is reported.
    fn typed<T: DeserializeOwned + Default>(&mut self, value: Spanned<DeValue<'i>>) -> T {
        let mut table = self.table(value);
        let mut left = culprits(table.get_ref());
        loop {
            match T::deserialize(Deserializer::from(table.clone())) {
                Ok(section) => return section,
                Err(error) => {
                    self.note(&error);
                    if left == 0 || !without_culprit(table.get_mut(), &error) {
                        return T::default();
                    }
                    left -= 1;
                }
            }
        }
    }

    fn single<T: DeserializeOwned>(&mut self, value: Spanned<DeValue<'i>>) -> Option<T> {
        let read = T::deserialize(toml::de::ValueDeserializer::from(value));
        read.map_err(|error| self.note(&error)).ok()
    }

    fn table(&mut self, value: Spanned<DeValue<'i>>) -> Spanned<DeTable<'i>> {
        let span = value.span();
        match value.into_inner() {
            DeValue::Table(table) => Spanned::new(span, table),
            other => {
                let found = other.type_str();
                self.wrong(span.start, format!("expected a section, found a {found}"));
                Spanned::new(span, DeTable::new())
            }
        }
    }
}

/// How many entries and elements of lists there are to set aside.
fn culprits(table: &DeTable<'_>) -> usize {
    let counts = table.iter().map(|(_, value)| match value.get_ref() {
        DeValue::Array(elements) => 1 + elements.len(),
        _ => 1,
    });
    counts.sum()
}

/// Takes out the entry that an error is about, or the element of its list; false when there is none.
fn without_culprit(table: &mut DeTable<'_>, error: &toml::de::Error) -> bool {
    let Some(span) = error.span() else {
        return false;
    };
    let at = span.start;
    let about =
        |entry: &(&Spanned<_>, &Spanned<_>)| entry.0.span().contains(&at) || covers(entry.1, at);
    let culprit = table
        .iter()
        .find(about)
        .map(|(key, _)| key.get_ref().to_string());
    let Some(key) = culprit else {
        return false;
    };
    let listed = table.get_mut(key.as_str());
    if listed.is_some_and(|value| without_element(value, at)) {
        return true;
    }
    table.remove(key.as_str()).is_some()
}

/// Takes the element out of a list that covers a place; false when it is no list, or no element
/// does.
fn without_element(value: &mut Spanned<DeValue<'_>>, at: usize) -> bool {
    let DeValue::Array(elements) = value.get_mut() else {
        return false;
    };
    let before = elements.len();
    let kept = elements.iter().filter(|element| !covers(element, at));
    let kept: DeArray<'_> = kept.cloned().collect();
    let removed = kept.len() < before;
    *elements = kept;
    removed
}

/// Whether a value covers a place. The span of a `[[section]]` is that of its header alone.
fn covers(value: &Spanned<DeValue<'_>>, at: usize) -> bool {
    let inside = match value.get_ref() {
        DeValue::Array(elements) => elements.iter().any(|element| covers(element, at)),
        DeValue::Table(table) => table
            .iter()
            .any(|(key, value)| key.span().contains(&at) || covers(value, at)),
        _ => false,
    };
    inside || value.span().contains(&at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        let (_, problems) = read(Path::new("f.toml"), text);
        problems.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_unknown_key_is_told_with_its_place() {
        let found = problems(
            "[server]\nlisten = \"127.0.0.1:1\"\nlisen = 1\n\n[watch]\n  x = 1\nbuffer = \"a\"\n\n[sever]\n",
        );
        assert_eq!(found.len(), 4, "{found:#?}");
        assert!(
            found[0].starts_with("f.toml:3:1: unknown field `lisen`, expected"),
            "{}",
            found[0]
        );
        assert!(
            found[1].starts_with("f.toml:6:3: unknown field `x`"),
            "{}",
            found[1]
        );
        assert!(
            found[2].starts_with("f.toml:7:10: invalid type: string"),
            "{}",
            found[2]
        );
        assert!(
            found[3].starts_with("f.toml:9:2: unknown section `sever`"),
            "{}",
            found[3]
        );
    }

    #[test]
    fn every_mistake_of_a_provider_is_told() {
        let found = problems(
            "[providers.Shop]\nkind = \"memory\"\n[providers.a]\n[providers.b]\nkind = \"airflow\"\n\
             [providers.c]\nkind = \"memory\"\nno_such_option = 1\n[providers.c.limits]\nx = 1\n",
        );
        let starts = [
            "f.toml:1:12: `Shop` is not a provider id",
            "f.toml:3:12: a provider needs a `kind`",
            "f.toml:5:8: `airflow` is not a kind of provider",
            "f.toml:8:1: unknown field `no_such_option`",
            "f.toml:10:1: unknown field `x`",
        ];
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for (found, start) in found.iter().zip(starts) {
            assert!(found.starts_with(start), "{found}");
        }
    }

    #[test]
    fn a_syntax_error_is_told_alone() {
        let found = problems("[server\nx = 1\n");
        assert!(found[0].starts_with("f.toml:1:"), "{found:#?}");
    }

    #[test]
    fn a_wrong_duration_shows_how_to_write_one() {
        let found = problems("[limits]\ntimeout = \"10\"\n");
        assert!(
            found[0].starts_with("f.toml:2:11: `10` is not a duration; write"),
            "{}",
            found[0]
        );
    }

    #[test]
    fn every_mistake_of_every_policy_rule_is_reported() {
        let found = problems(
            "[providers.b]\nkind = \"builtin\"\nlease = \"soon\"\n\
             [[providers.b.policy]]\nname = \"a\"\nwhen = 'setp = promote'\ndecision = \"deny\"\n\
             [[providers.b.policy]]\nname = \"b\"\ndecision = \"denny\"\n\
             [[providers.b.policy]]\nname = \"c\"\ndecision = \"require-approval\"\n\
             [[providers.b.policy]]\nname = \"d\"\ndecision = \"allow\"\n",
        );
        let starts = [
            "f.toml:3:9: ",
            "f.toml:6:8: `when`: `setp` is not a field at column 1 (Did you mean `step`? Fields:",
            "f.toml:10:12: `denny` is not a decision; did you mean `deny`?",
            "f.toml:11:1: policy rule `c` needs `role`",
        ];
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for (found, start) in found.iter().zip(starts) {
            assert!(found.starts_with(start), "{found}");
        }
    }
}
