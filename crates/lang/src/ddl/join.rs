//! The declaration of a join: pairs of events of two streams, which go into a third.
//!
//! ```text
//! CREATE JOIN [IF NOT EXISTS] name INTO stream AS
//!   SELECT e [[AS] name], … FROM STREAM(a) [AS] x [INNER] JOIN STREAM(b) [AS] y ON condition [AND condition]… [WHERE e]
//!   condition = e | time BETWEEN time [+|- INTERVAL '…'] AND time [+|- INTERVAL '…']        (exactly one is such)
//! DROP JOIN [IF EXISTS] name
//! SHOW JOINS       SHOW CREATE JOIN name       DESCRIBE JOIN name
//! ```

use std::fmt::{self, Display};

use swiftwater_event::StreamName;

use super::{
    CreateStream,
    print::{when, write_name},
};
use crate::{Dialect, QueryErrors, parser, plan::JoinPlan, planner, source::locate};

/// `CREATE JOIN`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateJoin {
    /// Its name, by the rules of streams' names.
    pub name: Box<str>,
    /// `IF NOT EXISTS`: an existing one is no error.
    pub if_not_exists: bool,
    /// The stream that gets the pairs.
    pub target: StreamName,
    /// The left stream and the right one.
    pub sides: [StreamName; 2],
    /// The query, as it is written: what it means depends on the streams.
    pub query: Box<str>,
}

impl CreateJoin {
    /// The plan of its query over what its two streams are declared as; places of faults are those in the query.
    pub fn plan(&self, streams: [&CreateStream; 2]) -> Result<JoinPlan, QueryErrors> {
        parser::parse_join(&self.query)
            .and_then(|join| planner::plan_join(&join, streams))
            .map_err(|faults| locate(&self.query, faults, Dialect::Native))
    }
}

impl Display for CreateJoin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE JOIN {}", when(self.if_not_exists, "IF NOT EXISTS "))?;
        write_name(f, &self.name)?;
        f.write_str(" INTO ")?;
        write_name(f, self.target.as_str())?;
        write!(f, " AS\n{}", self.query)
    }
}
