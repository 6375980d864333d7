//! Resolves the table and column names of a statement, and replaces them by the exact names.
//!
//! ```text
//! SELECT Carrier FROM Flights     becomes  SELECT carrier FROM flights     (a stream `flights` with a column `carrier`)
//! ```
//!
//! An exact match has priority. Otherwise an unquoted name matches in any letter case, if exactly one name does.
//! DataFusion knows exact names only, so the statement's tree is rewritten before planning. The tables are resolved
//! first, and the columns when the tables' columns are known.
//!
//! Columns without a table qualifier are looked up among all columns and aliases of the statement, not scope by scope. If
//! columns of two tables differ in letter case alone, only exact names distinguish them. The same pass rewrites literal
//! lists ([`array_text`]) and PostgreSQL's own functions ([`postgres`]).

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, Statement as SqlStatement, TableAlias, TableFactor, VisitorMut,
};

use crate::array_text;
use crate::error::state;
use crate::postgres::{self, PG_CATALOG_TABLES};
use crate::text::{mark, place_of_span, unmark};
use crate::walk::walk_statement_mut;
use crate::{At, ErrorKind, Parameter, SqlError, TableKind};

/// The schema in which all tables are.
pub(crate) const SCHEMA: &str = "public";
/// The catalog in which it is.
pub(crate) const CATALOG: &str = "swiftwater";
/// The schema in which the engine tells of itself.
pub(crate) const SYSTEM: &str = "system";
/// The schema of PostgreSQL's own tables.
pub(crate) const PG_CATALOG: &str = "pg_catalog";
/// Schemas that the engine, DataFusion and the wire protocols fill.
const SYSTEM_SCHEMAS: [&str; 3] = [SYSTEM, "information_schema", PG_CATALOG];
/// Tables that a hint tells.
const TABLES_TOLD: usize = 20;

/// The tables that exist at the time a statement is planned.
pub(crate) struct Names {
    tables: Vec<(String, TableKind)>,
    /// True if there are no others.
    is_whole: bool,
}

impl Names {
    pub(crate) fn new(mut tables: Vec<(String, TableKind)>, is_whole: bool) -> Names {
        tables.sort();
        Names { tables, is_whole }
    }

    pub(crate) fn all(&self) -> &[(String, TableKind)] {
        &self.tables
    }

    /// Returns true if there are no others.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    pub(crate) fn kind(&self, name: &str) -> Option<TableKind> {
        self.tables
            .binary_search_by(|(known, _)| known.as_str().cmp(name))
            .ok()
            .map(|index| self.tables[index].1)
    }

    /// The table that is meant; none if there is none.
    pub(crate) fn find(&self, name: &str, quoted: bool) -> Result<Option<String>, SqlError> {
        find(self.tables.iter().map(|(name, _)| name.as_str()), name, quoted, "table")
    }

    pub(crate) fn missing(&self, ident: &Ident, name: &str) -> SqlError {
        if !self.is_whole {
            return not_known(name).at(place_of_span(ident.span));
        }
        let mut names: Vec<&str> = self.tables.iter().map(|(name, _)| name.as_str()).collect();
        let more = names.len().saturating_sub(TABLES_TOLD);
        names.truncate(TABLES_TOLD);
        let hint = match (names.is_empty(), more) {
            (true, _) => "There are no tables yet.".to_owned(),
            (false, 0) => format!("Tables are: {}.", names.join(", ")),
            (false, more) => format!("Tables are: {}, and {more} more.", names.join(", ")),
        };
        SqlError::new(ErrorKind::NotFound, format!("no table `{name}`"))
            .at(place_of_span(ident.span))
            .with_hint(hint)
    }

    /// The table that an object name means, with or without `public` in front; and its identifier.
    pub(crate) fn target<'a>(&self, name: &'a ObjectName) -> Result<(&'a Ident, Option<String>), SqlError> {
        let idents: Vec<&Ident> = name.0.iter().filter_map(ObjectNamePart::as_ident).collect();
        let ident = match idents.as_slice() {
            [ident] => *ident,
            [schema, ident] if is(schema, SCHEMA) => *ident,
            [catalog, schema, ident] if is(catalog, CATALOG) && is(schema, SCHEMA) => *ident,
            _ => {
                return Err(SqlError::invalid(format!("`{name}` cannot be written to"))
                    .at(idents.first().and_then(|ident| place_of_span(ident.span))));
            }
        };
        let found = self
            .find(&ident.value, ident.quote_style.is_some())
            .map_err(|e| e.at(place_of_span(ident.span)))?;
        Ok((ident, found))
    }
}

/// The error for a table that may exist, while the store cannot be reached.
pub fn not_known(name: &str) -> SqlError {
    let message = format!("table `{name}` cannot be looked up: the store cannot be reached");
    SqlError::new(ErrorKind::Unavailable, message)
        .with_hint("The server retries; streams accept events meanwhile.")
}

/// The error that a list of all tables would be incomplete.
pub fn not_all_known() -> SqlError {
    SqlError::new(ErrorKind::Unavailable, "the tables cannot be listed: the store cannot be reached")
        .with_hint("The server retries; SHOW STREAMS and SHOW VIEWS list the other objects.")
}

/// The table of the engine's own schema that is meant, if it is one of its.
pub(crate) fn of_system(name: &ObjectName) -> Option<String> {
    let mut idents = name.0.iter().filter_map(ObjectNamePart::as_ident);
    let (schema, table) = (idents.next()?, idents.next()?);
    (is(schema, SYSTEM) && idents.next().is_none()).then(|| table.value.to_lowercase())
}

fn is(ident: &Ident, name: &str) -> bool {
    ident.value.eq_ignore_ascii_case(name)
}

/// The one of `names` that is meant: exact, else the only one whatever the case.
fn find<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
    wanted: &str,
    quoted: bool,
    what: &str,
) -> Result<Option<String>, SqlError> {
    if names.clone().any(|name| name == wanted) {
        return Ok(Some(wanted.to_owned()));
    }
    if quoted {
        return Ok(None);
    }
    let lower = wanted.to_lowercase();
    let mut alike: Vec<&str> = names.filter(|name| name.to_lowercase() == lower).collect();
    alike.sort_unstable();
    alike.dedup();
    match alike.as_slice() {
        [] => Ok(None),
        [one] => Ok(Some((*one).to_owned())),
        several => Err(SqlError::invalid(format!("{what} `{wanted}` is ambiguous"))
            .with_hint(format!("Write it with its case: {}.", several.join(", ")))),
    }
}

/// A table that a statement reads: the name under which it is registered, its own name, and which state of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReferencedTable {
    pub(crate) key: String,
    pub(crate) name: String,
    pub(crate) at: Option<At>,
}

/// The tables that a statement references.
#[derive(Debug, Default)]
pub(crate) struct TableReferences {
    pub(crate) tables: Vec<ReferencedTable>,
    /// Names that the statement itself gives: aliases of columns, parameters of lambdas.
    aliases: Vec<String>,
    /// Names that stand before a dot, and the key of the table that each stands for, if it is one.
    qualifiers: Vec<(String, Option<String>)>,
}

/// Rewrites the tables of a statement to their own names, and returns them.
pub(crate) fn resolve_tables(statement: &mut Statement, names: &Names) -> Result<TableReferences, SqlError> {
    let mut pass = TablePass { names, ctes: Vec::new(), reads: TableReferences::default() };
    walk_statement_mut(statement, &mut pass)?;
    Ok(pass.reads)
}

/// Rewrites the columns of a statement to their own names. `schemas` are those of its tables, by their keys.
pub(crate) fn resolve_columns(
    statement: &mut Statement,
    reads: &TableReferences,
    schemas: &HashMap<String, SchemaRef>,
    parameters: &[Parameter],
) -> Result<(), SqlError> {
    let columns = schemas.values().flat_map(|schema| schema.fields()).map(|field| field.name().as_str());
    let mut tables: HashMap<&str, Option<&SchemaRef>> = HashMap::new();
    for (qualifier, key) in &reads.qualifiers {
        let schema = key.as_ref().and_then(|key| schemas.get(key));
        // One that stands for different things in different places is looked up among all columns.
        let entry = tables.entry(qualifier).or_insert(schema);
        if *entry != schema {
            *entry = None;
        }
    }
    let mut pass = ColumnPass {
        exact: columns.clone().chain(reads.aliases.iter().map(String::as_str)).collect(),
        columns: by_lower_case(columns),
        aliases: by_lower_case(reads.aliases.iter().map(String::as_str)),
        qualifiers: by_lower_case(reads.qualifiers.iter().map(|(qualifier, _)| qualifier.as_str())),
        tables,
        parameters,
    };
    walk_statement_mut(statement, &mut pass)
}

struct TablePass<'a> {
    names: &'a Names,
    ctes: Vec<String>,
    reads: TableReferences,
}

impl TablePass<'_> {
    fn alias(&mut self, alias: &TableAlias) {
        self.reads.qualifiers.push((alias.name.value.clone(), None));
        self.reads.aliases.extend(alias.columns.iter().map(|column| column.name.value.clone()));
    }

    fn table(&mut self, name: &mut ObjectName, alias: &mut Option<TableAlias>) -> Result<(), SqlError> {
        let idents: Vec<Ident> = name.0.iter().filter_map(ObjectNamePart::as_ident).cloned().collect();
        let ident = match idents.as_slice() {
            [ident] => ident,
            [schema, ident] if is(schema, SCHEMA) => ident,
            [catalog, schema, ident] if is(catalog, CATALOG) && is(schema, SCHEMA) => ident,
            [.., schema, ident] if SYSTEM_SCHEMAS.iter().any(|system| is(schema, system)) => {
                *name = ObjectName::from(vec![
                    Ident::new(schema.value.to_lowercase()),
                    Ident::new(ident.value.to_lowercase()),
                ]);
                return Ok(());
            }
            [first, ..] => {
                return Err(self.names.missing(first, &name.to_string()));
            }
            [] => return Ok(()),
        };
        let quoted = ident.quote_style.is_some();
        let (written, at) = unmark(&ident.value);
        if idents.len() == 1 && at.is_none() {
            let cte = find(self.ctes.iter().map(String::as_str), written, quoted, "table")?;
            if let Some(cte) = cte {
                let ident = Ident { value: cte, ..ident.clone() };
                // A relation with a name of its own is planned apart (`unique_keys`).
                alias.get_or_insert_with(|| TableAlias {
                    explicit: true,
                    name: ident.clone(),
                    columns: Vec::new(),
                    at: None,
                });
                *name = ObjectName::from(vec![ident]);
                return Ok(());
            }
        }
        let Some(found) =
            self.names.find(written, quoted).map_err(|error| error.at(place_of_span(ident.span)))?
        else {
            // PostgreSQL's own tables need no schema in front.
            let own = PG_CATALOG_TABLES.iter().find(|own| is(ident, own));
            if let (Some(own), 1) = (own, idents.len()) {
                *name = ObjectName::from(vec![Ident::new(PG_CATALOG), Ident::new(*own)]);
                return Ok(());
            }
            return Err(self.names.missing(ident, written));
        };
        let key = mark(&found, at);
        let qualifier = alias.as_ref().map_or_else(|| found.clone(), |alias| alias.name.value.clone());
        self.reads.qualifiers.push((qualifier, Some(key.clone())));
        if at.is_some() && alias.is_none() {
            *alias = Some(TableAlias {
                explicit: true,
                name: Ident { value: found.clone(), ..ident.clone() },
                columns: Vec::new(),
                at: None,
            });
        }
        *name = ObjectName::from(vec![Ident { value: key.clone(), ..ident.clone() }]);
        let wanted = ReferencedTable { key, name: found, at };
        if !self.reads.tables.contains(&wanted) {
            self.reads.tables.push(wanted);
        }
        Ok(())
    }
}

impl VisitorMut for TablePass<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.ctes.push(cte.alias.name.value.clone());
            self.alias(&cte.alias);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        let own = query.with.as_ref().map_or(0, |with| with.cte_tables.len());
        self.ctes.truncate(self.ctes.len().saturating_sub(own));
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.reads.aliases.push(alias.value.clone());
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                if let Some(alias) = alias {
                    self.reads.aliases.extend(alias.columns.iter().map(|column| column.name.value.clone()));
                }
                let known = self.reads.qualifiers.len();
                let table = self.table(name, alias);
                if let (Some(alias), true) = (alias, self.reads.qualifiers.len() == known) {
                    self.alias(alias);
                }
                if let Err(error) = table {
                    return ControlFlow::Break(error);
                }
            }
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::TableFunction { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. } => self.alias(alias),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        if let Expr::Lambda(lambda) = expr {
            self.reads.aliases.extend(lambda.params.iter().map(|param| param.name.value.clone()));
        }
        ControlFlow::Continue(())
    }
}

/// Names by their lower case: all that are spelled so.
type ByLowerCase<'a> = HashMap<String, Vec<&'a str>>;

fn by_lower_case<'a>(names: impl Iterator<Item = &'a str>) -> ByLowerCase<'a> {
    let mut known: ByLowerCase<'a> = HashMap::new();
    for name in names {
        let alike = known.entry(name.to_lowercase()).or_default();
        if !alike.contains(&name) {
            alike.push(name);
        }
    }
    known
}

struct ColumnPass<'a> {
    exact: HashSet<&'a str>,
    columns: ByLowerCase<'a>,
    aliases: ByLowerCase<'a>,
    qualifiers: ByLowerCase<'a>,
    /// The tables, with their columns where these are known.
    tables: HashMap<&'a str, Option<&'a SchemaRef>>,
    parameters: &'a [Parameter],
}

impl ColumnPass<'_> {
    fn is_known(&self, ident: &Ident) -> bool {
        let lower = ident.value.to_lowercase();
        self.columns.contains_key(&lower) || self.aliases.contains_key(&lower)
    }

    fn column(&self, ident: &mut Ident) -> ControlFlow<SqlError> {
        if ident.quote_style.is_some() || self.exact.contains(ident.value.as_str()) {
            return ControlFlow::Continue(());
        }
        let lower = ident.value.to_lowercase();
        let alike = self.columns.get(&lower).or_else(|| self.aliases.get(&lower));
        match alike.map(Vec::as_slice) {
            None | Some([]) => {}
            Some([one]) => ident.value = (*one).to_owned(),
            Some(several) => {
                let mut several = several.to_vec();
                several.sort_unstable();
                return ControlFlow::Break(
                    SqlError::invalid(format!("column `{}` is ambiguous", ident.value))
                        .at(place_of_span(ident.span))
                        .with_hint(format!("Write it with its case: {}.", several.join(", "))),
                );
            }
        }
        ControlFlow::Continue(())
    }

    /// A column with its table in front.
    fn column_of(&self, table: &Ident, column: &mut Ident) -> ControlFlow<SqlError> {
        let Some(Some(schema)) = self.tables.get(table.value.as_str()) else {
            return self.column(column);
        };
        let names = schema.fields().iter().map(|field| field.name().as_str());
        match find(names, &column.value, column.quote_style.is_some(), "column") {
            Ok(Some(name)) => {
                column.value = name;
                ControlFlow::Continue(())
            }
            // DataFusion reports the known names.
            Ok(None) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error.at(place_of_span(column.span))),
        }
    }

    /// Returns true if the identifier is a table's name or alias, and spells it as that is spelled.
    fn qualifier(&self, ident: &mut Ident) -> bool {
        let alike = self.qualifiers.get(&ident.value.to_lowercase()).map(Vec::as_slice);
        match alike {
            None | Some([]) => false,
            Some(alike) if alike.contains(&ident.value.as_str()) => true,
            Some([one]) if ident.quote_style.is_none() => {
                ident.value = (*one).to_owned();
                true
            }
            Some(_) => ident.quote_style.is_none(),
        }
    }
}

impl VisitorMut for ColumnPass<'_> {
    type Break = SqlError;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        array_text::rewrite(expr, self.parameters)?;
        postgres::rewrite(expr)?;
        if let Some(ident) = postgres::without_brackets(expr).filter(|ident| self.is_known(ident)) {
            *expr = Expr::Identifier(ident.clone());
        }
        match expr {
            Expr::Identifier(ident) => self.column(ident),
            Expr::CompoundIdentifier(idents) => {
                let [first, rest @ ..] = idents.as_mut_slice() else {
                    return ControlFlow::Continue(());
                };
                // `t.column`; else it is a column with a field of its own.
                match (self.qualifier(first), rest.first_mut()) {
                    (true, Some(column)) => self.column_of(first, column),
                    (true, None) => ControlFlow::Continue(()),
                    (false, _) => self.column(first),
                }
            }
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item
                && let [ObjectNamePart::Identifier(ident)] = name.0.as_mut_slice()
            {
                self.qualifier(ident);
            }
        }
        for join in select.from.iter_mut().flat_map(|from| &mut from.joins) {
            if let Some(JoinConstraint::Using(names)) = constraint(&mut join.join_operator) {
                for name in names {
                    if let [ObjectNamePart::Identifier(ident)] = name.0.as_mut_slice() {
                        self.column(ident)?;
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, _: &mut SqlStatement) -> ControlFlow<SqlError> {
        ControlFlow::Continue(())
    }
}

fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint)
        | JoinOperator::LeftSemi(constraint)
        | JoinOperator::RightSemi(constraint)
        | JoinOperator::LeftAnti(constraint)
        | JoinOperator::RightAnti(constraint) => Some(constraint),
        _ => None,
    }
}

/// The column of a target that is meant by a name in `INSERT INTO t (…)`.
pub(crate) fn find_column(schema: &Schema, ident: &Ident) -> Result<usize, SqlError> {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let found = find(names.clone(), &ident.value, ident.quote_style.is_some(), "column")
        .map_err(|error| error.at(place_of_span(ident.span)))?;
    match found.and_then(|name| schema.index_of(&name).ok()) {
        Some(index) => Ok(index),
        None => Err(SqlError::new(ErrorKind::NotFound, format!("no column `{}`", ident.value))
            .with_state(state::NO_COLUMN)
            .at(place_of_span(ident.span))
            .with_hint(format!("Columns are: {}.", names.collect::<Vec<_>>().join(", ")))),
    }
}
