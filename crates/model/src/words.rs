//! One way to declare a closed list of words.
//!
//! Each such list gets the same manners: `ALL` in declaration order, `as_str`, `Display`, a strict
//! `FromStr` and serde by that very word. Spelling therefore lives in exactly one place per word.

use thiserror::Error;

/// A word that is not in the closed list it was looked up in.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{word}` is not a {list}; known: {}", known.join(", "))]
pub struct UnknownWord {
    /// What the list is a list of, for example `sub-state`.
    pub list: &'static str,
    /// The word that was not found.
    pub word: String,
    /// Every word that would have been found.
    pub known: Vec<&'static str>,
}

/// Declares an enum whose variants each have exactly one spelling.
///
/// Exported for the crates of this workspace that have closed lists of their own; the caller
/// needs `serde` with its derive.
#[macro_export]
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident as $list:literal {
            $( $(#[$variant_meta:meta])* $variant:ident = $word:literal, )+
        }
    ) => {
        $(#[$meta])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash,
            serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $( $(#[$variant_meta])* #[serde(rename = $word)] $variant, )+
        }

        impl $name {
            /// Every word of this list, in the order of declaration.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )+ ];

            /// The word as the API, the CLI and the documentation spell it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word).ok_or_else(|| {
                    $crate::UnknownWord {
                        list: $list,
                        word: word.to_owned(),
                        known: Self::ALL.iter().map(|known| known.as_str()).collect(),
                    }
                })
            }
        }
    };
}

pub(crate) use words;
