//! Many schedules, on several threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use stateway_engine::simulation::Bug;

use crate::totals::Totals;
use crate::world::{Broken, Schedule, Template};

/// Which schedules to run.
#[derive(Debug, Clone, Copy)]
pub struct Soak {
    /// The seed of the first schedule; the others follow it.
    pub seed: u64,
    /// How many schedules.
    pub schedules: u64,
    /// How many threads.
    pub jobs: usize,
    /// A defect that is planted in the engine.
    pub bug: Option<Bug>,
}

impl Soak {
    /// Runs the schedules until all are done or one fails. `progress` is called with the number of
    /// schedules that are done, now and then.
    ///
    /// # Errors
    /// The schedule with the lowest seed that failed, with a trace.
    pub fn run(self, progress: &(dyn Fn(u64) + Sync)) -> Result<Totals, Box<Broken>> {
        let next = AtomicU64::new(0);
        let totals = Mutex::new(Totals::default());
        let failed: Mutex<Option<Box<Broken>>> = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..self.jobs.max(1) {
                scope.spawn(|| {
                    let found = self.work(&next, progress);
                    let (mine, broken) = found;
                    lock(&totals).add(&mine);
                    if let Some(broken) = broken {
                        // The other threads stop soon.
                        next.store(self.schedules, Ordering::Relaxed);
                        let mut failed = lock(&failed);
                        if failed.as_ref().is_none_or(|other| broken.seed < other.seed) {
                            *failed = Some(broken);
                        }
                    }
                });
            }
        });
        match lock(&failed).take() {
            Some(broken) => Err(self.traced(broken)),
            None => Ok(lock(&totals).clone()),
        }
    }

    fn work(
        self,
        next: &AtomicU64,
        progress: &(dyn Fn(u64) + Sync),
    ) -> (Totals, Option<Box<Broken>>) {
        let mut totals = Totals::default();
        let template = match Template::new() {
            Ok(template) => template,
            Err(what) => return (totals, Some(Box::new(no_template(self.seed, what)))),
        };
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            if at >= self.schedules {
                return (totals, None);
            }
            let seed = self.seed.wrapping_add(at);
            let schedule = Schedule {
                one_by_one: false,
                seed,
                trace: false,
                bug: self.bug,
                crash: None,
            };
            match schedule.run(&template) {
                Ok(story) => totals.add(&story.totals),
                Err(broken) => return (totals, Some(broken)),
            }
            progress(at + 1);
        }
    }

    /// The same schedule again, with everything that happens in it.
    fn traced(self, broken: Box<Broken>) -> Box<Broken> {
        let schedule = Schedule {
            one_by_one: false,
            seed: broken.seed,
            trace: true,
            bug: self.bug,
            crash: None,
        };
        let again = Template::new().map(|template| schedule.run(&template));
        match again {
            Ok(Err(again)) => again,
            _ => broken,
        }
    }
}

const fn no_template(seed: u64, what: String) -> Broken {
    Broken {
        seed,
        what,
        lines: Vec::new(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
