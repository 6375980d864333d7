//! Standing queries: how they are submitted, run, fan out to their subscribers, and finish.

pub(crate) mod active;
pub(crate) mod analyze;
pub(crate) mod fan_out;
pub(crate) mod finish;
pub(crate) mod handle;
pub(crate) mod id;
pub(crate) mod linger;
pub(crate) mod listing;
pub(crate) mod options;
pub(crate) mod resume_point;
pub(crate) mod submit;
pub(crate) mod totals;
pub(crate) mod validate;
pub(crate) mod warnings;
