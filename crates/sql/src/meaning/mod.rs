//! Rewrites or refuses expressions that mean something else in DataFusion than in PostgreSQL.
//!
//! The native dialect is PostgreSQL's SQL. Each such expression is rewritten to mean the same, or refused with a hint
//! about what to write instead.
//!
//! [`rewrite`] works on the syntax tree, which has only the words ([`syntax`]). [`checked`] works on the plan, which has
//! the types ([`arithmetic`], [`texts`]). Both insert functions of this module; [`register`] adds them to a session.
//! `docs/reference/sql.md` lists the remaining differences. `tests/sql/postgres/*.txt` contains PostgreSQL's own answers,
//! with which a test compares the answers here.

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
#[cfg(feature = "distributed")]
pub(crate) use finite::{range_function, range_type};
pub(crate) use syntax::{equals_any, rewrite};
pub use zone::is_utc;

/// The zone of all instants, and of every session.
pub(crate) const UTC: &str = "UTC";

/// The functions that have no state, and that no statement can call by name.
#[cfg(feature = "distributed")]
pub(crate) fn unnamed_functions() -> Vec<ScalarUDF> {
    let mut functions = arithmetic::checked_functions();
    functions.extend(casts::step_functions());
    functions.extend([texts::timestamp_text(), intervals::interval_length()]);
    functions
}

/// Makes a session know the functions.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let functions = [
        // DataFusion's own of that name, under the name that it shares with it alone.
        ScalarUDF::from(refused::StrftimeOnly::new(datafusion::functions::datetime::to_char())),
        ScalarUDF::from(at_time_zone::AtTimeZone::new()),
        ScalarUDF::from(similar::SimilarToEscape::new()),
        ScalarUDF::from(to_char::ToChar::new(to_char::TemplateDialect::Postgres)),
        ScalarUDF::from(to_char::ToChar::new(to_char::TemplateDialect::Spark)),
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
