//! Converts errors of the engine and of the store to errors of SQL: kind, SQLSTATE, message and hint.

use swiftwater_catalog::CatalogError;
use swiftwater_event::causes;
use swiftwater_sql::{ErrorKind as SqlErrorKind, SqlError, state};
use swiftwater_store::{ErrorKind as StoreErrorKind, StoreError};

use super::{EngineError, ErrorKind};
use crate::RuntimeError;

pub(crate) fn from_store(error: StoreError) -> SqlError {
    let kind = match error.kind() {
        StoreErrorKind::Invalid => SqlErrorKind::Invalid,
        StoreErrorKind::NotFound => SqlErrorKind::NotFound,
        StoreErrorKind::Conflict => SqlErrorKind::Conflict,
        StoreErrorKind::Unavailable => SqlErrorKind::Unavailable,
        StoreErrorKind::Limit => SqlErrorKind::Limit,
        StoreErrorKind::Corrupt => SqlErrorKind::Corrupt,
        StoreErrorKind::Internal => SqlErrorKind::Internal,
    };
    let message = match kind {
        // The causes say what to do about it: the disk is full, or the store cannot be reached.
        SqlErrorKind::Unavailable => causes(&error),
        _ => error.to_string(),
    };
    SqlError::new(kind, message).with_source(error)
}

pub(crate) fn from_engine(error: impl Into<EngineError>) -> SqlError {
    let error = error.into();
    let kind = match error.kind() {
        ErrorKind::Invalid => SqlErrorKind::Invalid,
        ErrorKind::NotFound => SqlErrorKind::NotFound,
        ErrorKind::Conflict => SqlErrorKind::Conflict,
        ErrorKind::Unavailable => SqlErrorKind::Unavailable,
        ErrorKind::Limit => SqlErrorKind::Limit,
    };
    let mut sql = SqlError::new(kind, error.to_string());
    if let Some(state) = state_of(&error) {
        sql = sql.with_state(state);
    }
    match error.hint() {
        Some(hint) => sql.with_hint(hint),
        None => sql,
    }
}

/// SQLSTATE, where the kind does not say it: of conflicts, whether something exists already or others depend on it.
fn state_of(error: &EngineError) -> Option<&'static str> {
    match error {
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::InUse(_))) => Some(state::DEPENDED_ON),
        EngineError::Runtime(RuntimeError::Catalog(CatalogError::Exists(_))) => None,
        _ => (error.kind() == ErrorKind::Conflict).then_some(state::NOT_NOW),
    }
}
