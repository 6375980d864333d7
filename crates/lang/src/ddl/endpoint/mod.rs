//! The declaration of an endpoint: a route of the server that accepts events or returns rows.
//!
//! ```text
//! CREATE ENDPOINT [IF NOT EXISTS] POST 'path' [(item, …)] INTO stream [SELECT column, …] [RETURNING column, …]
//!   [WITH (option = value, …)]
//! CREATE ENDPOINT [IF NOT EXISTS] GET 'path' [(item, …)]
//!   AS SELECT column, … [FROM view [WHERE condition] [LIMIT n]] [ELSE status ['message'] | ELSE SELECT column, …]
//!   [WITH (option = value, …)]
//! item   = name type [PATH | QUERY ['name'] | BODY ['a.b']] [NOT NULL] [DEFAULT constant|NOW] check…
//!        | check
//! check  = [CONSTRAINT name] CHECK (condition) [ELSE status ['message']]
//! column = expression [[AS] name]
//! ```
//!
//! `{name}` in a path refers to a declared parameter. In the SELECT of a view, and after it, a bare name is a column of
//! the view and `$name` is a parameter. Elsewhere both spellings are parameters. Expressions remain text here: [`plan`]
//! plans them.

mod options;
mod path;
pub mod plan;
mod print;

use swiftwater_event::{Path, StreamName, Type};

pub use self::{
    options::{Answer, EndpointOption, EndpointOptions, ErrorForm, OtherFields},
    path::{PathTemplate, Segment, is_reserved_path},
};
use super::{Check, DefaultValue};

/// The most parameters of an endpoint.
pub const PARAMETERS_MAX: usize = 256;

/// The most rows that an endpoint answers with, and those where none are stated.
pub const ENDPOINT_ROWS_MAX: u64 = 10_000;
/// Number of rows of an endpoint's answer if no LIMIT is stated.
pub const ENDPOINT_ROWS_DEFAULT: u64 = 100;

/// `CREATE ENDPOINT`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateEndpoint {
    /// Its method and path, which name it.
    pub name: EndpointName,
    /// `IF NOT EXISTS`: an existing one is no error.
    pub if_not_exists: bool,
    /// The parameters of a request, in order.
    pub parameters: Vec<Parameter>,
    /// Conditions over several parameters. Those of a single one stand with it.
    pub checks: Vec<ParameterCheck>,
    /// The action.
    pub action: EndpointAction,
    /// `WITH (…)`.
    pub options: EndpointOptions,
}

/// The method and path that identify an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EndpointName {
    /// Its method.
    pub method: EndpointMethod,
    /// Its path.
    pub path: PathTemplate,
}

/// The methods of endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EndpointMethod {
    /// `GET`, and so `HEAD`.
    Get,
    /// `POST`.
    Post,
}

/// The action of an endpoint.
#[derive(Debug, Clone, PartialEq)]
pub enum EndpointAction {
    /// `INTO`: makes an event.
    Into {
        /// The stream.
        stream: StreamName,
        /// The event as values of the stream's columns; `None`: the body's fields, and the parameters in their place.
        event: Option<Vec<EndpointColumn>>,
        /// The columns of the answer; `None`: it is empty.
        returning: Option<Vec<EndpointColumn>>,
    },
    /// `AS SELECT`: answers rows.
    Select {
        /// The columns.
        columns: Vec<EndpointColumn>,
        /// The source of the rows; `None`: there is one row, without columns.
        source: Option<RowSource>,
        /// The answer if there is no row.
        otherwise: Option<ElseClause>,
    },
}

/// `FROM view [WHERE condition] [LIMIT n]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowSource {
    /// The view.
    pub view: Box<str>,
    /// The condition on the rows, a text which is checked as far as that is possible without the view.
    pub condition: Option<Box<str>>,
    /// The most rows.
    pub limit: Option<u64>,
}

/// `ELSE …` behind a SELECT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElseClause {
    /// A status, with a message.
    Status(Refusal),
    /// A row, of parameters and constants.
    Row(Vec<EndpointColumn>),
}

/// A column of what is made or answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointColumn {
    /// Its name.
    pub name: Box<str>,
    /// Its expression.
    pub text: Box<str>,
}

/// A status that is answered instead of what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status, from 400 to 499.
    pub status: u16,
    /// The message; `None`: the fault.
    pub message: Option<Box<str>>,
}

/// One declared parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its name; no two are equal in whatever letter case.
    pub name: Box<str>,
    /// Its type.
    pub ty: Type,
    /// The source of its value.
    pub place: ParameterPlace,
    /// A request without it, and without a default for it, is refused.
    pub not_null: bool,
    /// The value that replaces a missing one or a null.
    pub default: Option<DefaultValue>,
    /// A request for which one of these is false is refused; where it is null, it is not.
    pub checks: Vec<ParameterCheck>,
}

/// The source of a parameter's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParameterPlace {
    /// `PATH`: the segment of its name.
    Path,
    /// `QUERY ['name']`: the parameter of that name behind `?`.
    Query(Box<str>),
    /// `BODY ['a.b']`: a field of the JSON object that the body is.
    Body(Path),
}

/// `CHECK (…) [ELSE status ['message']]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterCheck {
    /// The condition.
    pub check: Check,
    /// The answer if it is false; `None`: 400.
    pub refusal: Option<Refusal>,
}

impl EndpointMethod {
    /// The method's name.
    pub fn text(self) -> &'static str {
        match self {
            EndpointMethod::Get => "GET",
            EndpointMethod::Post => "POST",
        }
    }
}

impl CreateEndpoint {
    /// The default source of a parameter's value: the path, if that contains it; else the query string of GET, the body of
    /// POST.
    pub fn usual_place(&self, name: &str) -> ParameterPlace {
        match self.name.method {
            _ if self.name.path.has_parameter(name) => ParameterPlace::Path,
            EndpointMethod::Get => ParameterPlace::Query(name.into()),
            EndpointMethod::Post => ParameterPlace::Body(Path::field(name)),
        }
    }

    /// All conditions, those of single parameters first, each with the place of its parameter.
    pub fn all_checks(&self) -> impl Iterator<Item = (Option<usize>, &ParameterCheck)> {
        let of_parameters = self.parameters.iter().enumerate();
        of_parameters
            .flat_map(|(place, parameter)| parameter.checks.iter().map(move |check| (Some(place), check)))
            .chain(self.checks.iter().map(|check| (None, check)))
    }

    /// The view that it reads, where it reads one.
    pub fn view(&self) -> Option<&str> {
        match &self.action {
            EndpointAction::Select { source, .. } => source.as_ref().map(|source| &*source.view),
            EndpointAction::Into { .. } => None,
        }
    }

    /// The stream that it makes events of, where it does.
    pub fn stream(&self) -> Option<&StreamName> {
        match &self.action {
            EndpointAction::Into { stream, .. } => Some(stream),
            EndpointAction::Select { .. } => None,
        }
    }
}
