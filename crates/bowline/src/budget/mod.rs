//! The best model for the time available.
//!
//! From a corpus, the speed of this machine and a time, a [`Plan`] chooses the settings of a run ([`rules`]). They are
//! ordinary settings: the run can be repeated to the same bits without a budget. [`start`] plans and trains; [`train`] trains
//! by a plan, with an eye on the clock. The first epochs show how fast the machine really is, and while the learning rate is
//! constant the number of epochs can change without changing anything that was done ([`replan`]).

mod duration;
mod plan;
mod replan;
mod request;
pub mod rules;
mod train;

pub use duration::Budget;
pub use plan::{Facts, Plan, Planned, Speed};
pub use replan::replan;
pub use request::{Request, start};
pub use train::{measure, precision, resume, train};
