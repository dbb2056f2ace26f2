//! Views that a person saved: filters with a name, kept in a cookie of the browser.

use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use maud::{Markup, html};

use crate::cookie;
use crate::fields::{Fields, link};
use crate::flash::Flash;
use crate::form::{Submitted, hidden};
use crate::page::with_cookies;
use crate::problem::Problem;
use crate::text::said_within;
use crate::visitor::Visitor;

const COOKIE: &str = "stateway_views";
/// A view is kept for a year after the last change.
const SECONDS: u32 = 365 * 24 * 3600;
/// The most views, and the most bytes of all: a cookie holds about 4,000.
const MOST: usize = 12;
const MOST_BYTES: usize = 3_500;
/// The longest name, in characters.
const LONGEST_NAME: usize = 40;

/// A filter with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    name: String,
    filter: String,
}

/// The saved views, in the order in which they were saved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Views(Vec<View>);

impl Views {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let value = cookie::read(headers, COOKIE).unwrap_or_default();
        let fields = Fields::parse(value.as_bytes());
        let views = fields.iter().map(|(name, filter)| View {
            name: name.to_owned(),
            filter: filter.to_owned(),
        });
        Self(views.take(MOST).collect())
    }

    /// With a view more, or another filter under the same name.
    fn save(mut self, name: &str, filter: &str) -> Result<Self, Problem> {
        if name.is_empty() || name.chars().count() > LONGEST_NAME {
            return Err(Problem::invalid(
                "The name of the view is not valid.",
                "A name has 1 to 40 characters.",
            ));
        }
        self.0.retain(|view| view.name != name);
        self.0.push(View {
            name: name.to_owned(),
            filter: filter.to_owned(),
        });
        if self.0.len() > MOST || self.value().len() > MOST_BYTES {
            return Err(Problem::invalid(
                "The browser cannot store more views.",
                "Remove a view first, or bookmark the address of this page.",
            ));
        }
        Ok(self)
    }

    fn remove(mut self, name: &str) -> Self {
        self.0.retain(|view| view.name != name);
        self
    }

    fn value(&self) -> String {
        let mut value = form_urlencoded::Serializer::new(String::new());
        for view in &self.0 {
            value.append_pair(&view.name, &view.filter);
        }
        value.finish()
    }

    fn cookie(&self) -> HeaderValue {
        cookie::write(COOKIE, &self.value(), Some(SECONDS))
    }

    /// Links to the views, after the ready-made filters.
    pub(super) fn links(&self, filter: &str) -> Markup {
        html! {
            @for view in &self.0 {
                a.own href=(link("/executions", &[("filter", &view.filter)]))
                    aria-current=[(view.filter == filter).then_some("true")] {
                    (said_within(&view.name, LONGEST_NAME))
                }
            }
        }
    }

    /// A form to save the filter as a view, or to remove the view that has it.
    pub(super) fn form(&self, visitor: &Visitor, filter: &str) -> Markup {
        let saved = self.0.iter().find(|view| view.filter == filter);
        html! {
            @if let Some(view) = saved {
                form.view method="post" action="/views" {
                    (hidden(visitor))
                    input type="hidden" name="remove" value=(view.name);
                    input type="hidden" name="filter" value=(filter);
                    button.small { "Remove this view" }
                }
            } @else if !filter.is_empty() {
                details.view #save-view {
                    summary { "Save this view" }
                    form method="post" action="/views" {
                        (hidden(visitor))
                        input type="hidden" name="filter" value=(filter);
                        label { "Name of the view"
                            input name="name" required maxlength=(LONGEST_NAME) autocomplete="off";
                        }
                        button.small { "Save" }
                    }
                }
            }
        }
    }
}

/// Saves or removes a view.
pub(super) async fn keep(submitted: Submitted) -> Result<Response, Problem> {
    let fields = &submitted.fields;
    let (filter, views) = (fields.get("filter"), submitted.visitor.views.clone());
    let (views, done) = match fields.get("remove") {
        "" => (
            views.save(fields.get("name"), filter)?,
            "The view was saved in this browser.",
        ),
        name => (views.remove(name), "The view was removed."),
    };
    let to = link("/executions", &[("filter", filter)]);
    let answer = submitted.redirect(&to, &Flash::done(done));
    Ok(with_cookies(answer, [views.cookie()]))
}

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;

    fn read(views: &Views) -> Views {
        let line = views.cookie();
        let pair = line.to_str().unwrap().split(';').next().unwrap().to_owned();
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, pair.parse().unwrap());
        Views::of(&headers)
    }

    #[test]
    fn views_survive_the_cookie() {
        let views = Views::default()
            .save("Ä & co", "labels.a = \"b;c\"")
            .unwrap();
        let views = views.save("stuck", "sub_state = ERROR").unwrap();
        assert_eq!(read(&views), views);
        let changed = views.save("stuck", "reason = STUCK").unwrap();
        assert_eq!(changed.0.len(), 2);
        assert_eq!(changed.remove("stuck").0.len(), 1);
    }

    #[test]
    fn a_browser_keeps_no_more_than_it_can() {
        let mut views = Views::default();
        for number in 0..MOST {
            views = views.save(&number.to_string(), "a").unwrap();
        }
        assert!(views.save("one more", "a").is_err());
        assert!(Views::default().save("long", &"x".repeat(4_000)).is_err());
        assert!(Views::default().save("", "a").is_err());
    }
}
