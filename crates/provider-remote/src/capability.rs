//! What a provider in another process can have. What it really has, it reports itself.

pub use stateway_wire::CAPABILITIES;
