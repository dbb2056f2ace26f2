//! One field of a schedule: which numbers it holds.

/// What a field is about.
pub(super) struct Unit {
    name: &'static str,
    first: i8,
    last: i8,
    /// Other words for its numbers, from the first on.
    words: &'static [&'static str],
}

pub(super) const MINUTE: Unit = Unit {
    name: "minute",
    first: 0,
    last: 59,
    words: &[],
};
pub(super) const HOUR: Unit = Unit {
    name: "hour",
    first: 0,
    last: 23,
    words: &[],
};
pub(super) const DAY: Unit = Unit {
    name: "day of month",
    first: 1,
    last: 31,
    words: &[],
};
pub(super) const MONTH: Unit = Unit {
    name: "month",
    first: 1,
    last: 12,
    words: &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ],
};
/// Sunday is 0 and 7.
pub(super) const WEEKDAY: Unit = Unit {
    name: "day of week",
    first: 0,
    last: 7,
    words: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

/// The numbers that a field holds, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    bits: u64,
    /// Every number that there is.
    every: u64,
    /// Begins with `*`: such a day field does not restrict the other one.
    star: bool,
}

impl Field {
    /// Reads a list of `*`, `a`, `a-b`, each with `/step` or without.
    pub(super) fn parse(text: &str, unit: &Unit) -> Result<Self, String> {
        let mut bits = 0;
        for part in text.split(',') {
            bits |= part_bits(part, unit)?;
        }
        // Sunday has two numbers.
        if unit.last == WEEKDAY.last && bits & 1 << 7 != 0 {
            bits = bits & !(1 << 7) | 1;
        }
        let last = if unit.last == WEEKDAY.last {
            6
        } else {
            unit.last
        };
        Ok(Self {
            bits,
            every: range(unit.first, last, 1),
            star: text.starts_with('*'),
        })
    }

    pub(super) const fn holds(self, number: i8) -> bool {
        number >= 0 && self.bits & (1 << number) != 0
    }

    pub(super) const fn is_star(self) -> bool {
        self.star
    }

    pub(super) const fn is_every(self) -> bool {
        self.bits == self.every
    }

    pub(super) fn iter(self) -> impl Iterator<Item = i8> {
        (0..=59).filter(move |number| self.holds(*number))
    }
}

fn range(first: i8, last: i8, step: usize) -> u64 {
    let numbers = (first..=last).step_by(step.max(1));
    numbers.fold(0, |bits, number| bits | 1 << number)
}

fn part_bits(part: &str, unit: &Unit) -> Result<u64, String> {
    let (numbers, step) = match part.split_once('/') {
        Some((numbers, step)) => (numbers, Some(step)),
        None => (part, None),
    };
    let (first, last) = match numbers.split_once('-') {
        _ if numbers == "*" => (unit.first, unit.last),
        Some((first, last)) => (number(first, unit)?, end(last, unit)?),
        // `5/15` is short for `5-59/15`.
        None if step.is_some() => (number(numbers, unit)?, unit.last),
        None => {
            let only = number(numbers, unit)?;
            (only, only)
        }
    };
    if first > last {
        return Err(format!("the end of `{part}` is before its start"));
    }
    let most = usize::try_from(unit.last).unwrap_or(0);
    let step = match step.map(str::parse::<usize>) {
        None => 1,
        Some(Ok(step)) if (1..=most).contains(&step) => step,
        Some(_) => return Err(format!("the step of `{part}` is not from 1 to {most}")),
    };
    // Sunday is both 0 and 7; `*` covers 0 to 6, so that it has Sunday once.
    let last = if numbers == "*" && unit.last == WEEKDAY.last {
        6
    } else {
        last
    };
    Ok(range(first, last, step))
}

/// The end of a range: a week may end with Sunday.
fn end(text: &str, unit: &Unit) -> Result<i8, String> {
    let sunday = unit.last == WEEKDAY.last && text.eq_ignore_ascii_case("sun");
    if sunday { Ok(7) } else { number(text, unit) }
}

fn number(text: &str, unit: &Unit) -> Result<i8, String> {
    let mut words = unit.words.iter();
    let place = words.position(|word| word.eq_ignore_ascii_case(text));
    if let Some(place) = place.and_then(|place| i8::try_from(place).ok()) {
        return Ok(unit.first + place);
    }
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse::<i8>() {
        Ok(number) if digits && (unit.first..=unit.last).contains(&number) => Ok(number),
        _ => {
            let Unit {
                name, first, last, ..
            } = unit;
            let shown: String = text.chars().take(20).collect();
            Err(format!(
                "`{shown}` is not a valid {name} ({first} to {last})"
            ))
        }
    }
}
