//! Expressions that mean something else in DataFusion than in PostgreSQL, whose SQL the native dialect is: each is made to mean the
//! same, or refused with what to write instead.
//!
//! [`rewrite`] works on the syntax tree, where only the words are known ([`syntax`]); [`checked`] on the plan, where types are
//! ([`arithmetic`], [`texts`]). What both put in are functions of this module, made known to a session by [`register`].
//! `docs/reference/sql.md` lists what differs still. `tests/sql/postgres.slt` has PostgreSQL's own answers, and compares.

mod any_of_list;
mod arithmetic;
mod at_time_zone;
mod casts;
mod domain;
mod finite;
mod intervals;
mod refused;
mod regexp_match;
mod replacement;
mod similar;
mod syntax;
mod template;
mod texts;
mod to_char;
mod zone;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::ScalarUDF;

pub(crate) use arithmetic::checked;
pub(crate) use finite::{in_range, may_leave_range};
pub(crate) use syntax::{equals_any, rewrite};
pub use zone::is_utc;

/// The zone of all instants, and of every session.
pub(crate) const UTC: &str = "UTC";

/// Makes a session know the functions.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let functions = [
        // DataFusion's own of that name, under the name that it shares with it alone.
        ScalarUDF::from(refused::StrftimeOnly::new(datafusion::functions::datetime::to_char())),
        ScalarUDF::from(at_time_zone::AtTimeZone::new()),
        ScalarUDF::from(similar::SimilarToEscape::new()),
        ScalarUDF::from(to_char::ToChar::new(to_char::Whose::Postgres)),
        ScalarUDF::from(to_char::ToChar::new(to_char::Whose::Spark)),
        ScalarUDF::from(casts::Varchar::new()),
        ScalarUDF::from(any_of_list::EqualsAny::new(state.udf("array_has")?)),
        ScalarUDF::from(replacement::Replacement::new()),
        ScalarUDF::from(regexp_match::RegexpMatch::new(state.udf("regexp_match")?)),
    ];
    domain::register(state)?;
    for function in functions {
        state.register_udf(Arc::new(function))?;
    }
    Ok(())
}
