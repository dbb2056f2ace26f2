//! The pages, over plain HTTP: what a browser without a script gets, and what it may send.

mod definitions;
mod escalations;
mod hostile;
mod inbox;
mod providers;
mod workers;
