//! The declaration of a search index: the columns of a stream or table that searches read, and how each is analysed.
//!
//! ```text
//! CREATE SEARCH INDEX [IF NOT EXISTS] ON table (item, …) [WITH (default = (column, …))]
//!   item   = column kind | *
//!   kind   = TEXT [(option = value, …)] [BOOST number] | ID [CORRELATION] | FACET ['separator']
//!   option = stem = 'language'|none | fold = accents|none | split = code|none | positions = true|false
//! ALTER SEARCH INDEX ON table change, …
//!   change = ADD item | DROP column [TEXT|ID|FACET] | DROP * | SET (default = (column, …)) | RESET (default)
//! ALTER SEARCH INDEX ON table REBUILD [FROM 'time'] [TO 'time']
//! DROP SEARCH INDEX [IF EXISTS] ON table
//! SHOW SEARCH INDEXES       SHOW CREATE SEARCH INDEX ON table       DESCRIBE SEARCH INDEX ON table
//! ```
//!
//! A column may be listed once for each kind. The types of columns are checked by the owner of the tables.

use std::fmt::{self, Display, Write};

use swiftwater_event::did_you_mean;
use swiftwater_text::{
    ColumnIndex, IndexKind, SEARCH_COLUMNS_MAX, SearchDefinition, TextIndex, language_name,
};

use super::print::{name_text, when, write_name, write_quoted};

/// `CREATE SEARCH INDEX`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateSearchIndex {
    /// The stream or table that it is of, which names it.
    pub table: Box<str>,
    /// An existing index is no error.
    pub if_not_exists: bool,
    /// Its columns.
    pub definition: SearchDefinition,
}

/// `ALTER SEARCH INDEX`: all changes apply, or none.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterSearchIndex {
    /// The stream or table.
    pub table: Box<str>,
    /// The changes in order; at least one.
    pub changes: Vec<SearchIndexChange>,
}

/// One change of a search index.
#[derive(Debug, Clone, PartialEq)]
pub enum SearchIndexChange {
    /// `ADD column kind`.
    Add {
        /// The column.
        column: Box<str>,
        /// The kind that is added.
        index: ColumnIndex,
    },
    /// `ADD *`.
    AddAll,
    /// `DROP column`, or one kind of it.
    Drop {
        /// The column.
        column: Box<str>,
        /// The kind; none for all of them.
        kind: Option<IndexKind>,
    },
    /// `DROP *`: the declared columns remain.
    DropAll,
    /// `SET (default = …)`.
    SetDefaults(Vec<Box<str>>),
    /// `RESET (default)`: all columns of kind `TEXT` are default columns.
    ResetDefaults,
}

/// `ALTER SEARCH INDEX … REBUILD`: builds the index of a range of time again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebuildSearchIndex {
    /// The stream or table.
    pub table: Box<str>,
    /// The start of the range; none for the first row.
    pub from: Option<RebuildBound>,
    /// The end of the range, which is not in it; none for the last row.
    pub to: Option<RebuildBound>,
}

/// A bound of the range of time that is built again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebuildBound {
    /// The time as it is written: a day, or RFC 3339.
    pub text: Box<str>,
    /// The time in microseconds since 1970.
    pub micros: i64,
}

/// A definition of a search index that is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// A column has a kind already.
    #[error("column `{column}` is indexed as {} already", .kind.text())]
    KindTwice {
        /// The column.
        column: Box<str>,
        /// The kind.
        kind: IndexKind,
    },
    /// A column is not declared, or not as this kind.
    #[error("the search index has no column `{column}`{}", of_kind(*.kind))]
    NoColumn {
        /// The column.
        column: Box<str>,
        /// The kind that it does not have; none if it is not declared.
        kind: Option<IndexKind>,
        /// A declared column whose name is similar.
        near: Option<Box<str>>,
    },
    /// Every column is covered already, or none but the declared ones is.
    #[error("{}", if *.is_covered { "the search index covers `*` already" } else { "the search index does not cover `*`" })]
    CoversAll {
        /// True if `*` is covered.
        is_covered: bool,
    },
    /// No column is left.
    #[error("a search index covers at least one column")]
    Empty,
    /// Too many columns are declared.
    #[error("a search index declares at most {SEARCH_COLUMNS_MAX} columns")]
    TooManyColumns,
    /// A default column is not covered as `TEXT`.
    #[error("default column `{column}` is not indexed as TEXT")]
    Default {
        /// The column.
        column: Box<str>,
    },
    /// A default column is named twice.
    #[error("`default` names `{column}` twice")]
    DefaultTwice {
        /// The column.
        column: Box<str>,
    },
}

fn of_kind(kind: Option<IndexKind>) -> String {
    kind.map_or(String::new(), |kind| format!(" of kind {}", kind.text()))
}

impl DefinitionError {
    /// A hint that states what to do, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            DefinitionError::KindTwice { column, .. } => {
                let column = name_text(column);
                Some(format!(
                    "Each kind is listed once. ALTER … DROP {column}, ADD {column} … changes its options."
                ))
            }
            DefinitionError::NoColumn { near: Some(near), .. } => Some(format!("Did you mean `{near}`?")),
            DefinitionError::NoColumn { .. } => Some("DESCRIBE SEARCH INDEX lists its columns.".to_owned()),
            DefinitionError::Empty => Some("DROP SEARCH INDEX drops the whole index.".to_owned()),
            DefinitionError::TooManyColumns => Some("`*` covers any number of columns with text.".to_owned()),
            DefinitionError::Default { column } => {
                Some(format!("List `{} TEXT`, or name other columns in `default`.", name_text(column)))
            }
            DefinitionError::CoversAll { .. } | DefinitionError::DefaultTwice { .. } => None,
        }
    }
}

/// Checks a definition as a whole.
pub(crate) fn check_definition(definition: &SearchDefinition) -> Result<(), DefinitionError> {
    if definition.columns.is_empty() && !definition.covers_all {
        return Err(DefinitionError::Empty);
    }
    if definition.columns.len() > SEARCH_COLUMNS_MAX {
        return Err(DefinitionError::TooManyColumns);
    }
    check_defaults(definition)
}

/// Checks the default columns of a definition.
pub(crate) fn check_defaults(definition: &SearchDefinition) -> Result<(), DefinitionError> {
    for (place, column) in definition.defaults.iter().enumerate() {
        if definition.defaults[..place].contains(column) {
            return Err(DefinitionError::DefaultTwice { column: column.clone() });
        }
        if definition.column(column).is_none_or(|index| index.text.is_none()) {
            return Err(DefinitionError::Default { column: column.clone() });
        }
    }
    Ok(())
}

impl CreateSearchIndex {
    /// This declaration with the changes made.
    pub fn altered(&self, changes: &[SearchIndexChange]) -> Result<CreateSearchIndex, DefinitionError> {
        let mut altered = self.clone();
        let definition = &mut altered.definition;
        for change in changes {
            match change {
                SearchIndexChange::Add { column, index } => {
                    let twice = |kind| DefinitionError::KindTwice { column: column.clone(), kind };
                    definition.add(column, index.clone()).map_err(twice)?;
                }
                SearchIndexChange::AddAll | SearchIndexChange::DropAll => {
                    let is_added = *change == SearchIndexChange::AddAll;
                    if definition.covers_all == is_added {
                        return Err(DefinitionError::CoversAll { is_covered: is_added });
                    }
                    definition.covers_all = is_added;
                }
                SearchIndexChange::Drop { column, kind } => drop_column(definition, column, *kind)?,
                SearchIndexChange::SetDefaults(columns) => definition.set_defaults(columns),
                SearchIndexChange::ResetDefaults => definition.defaults.clear(),
            }
        }
        check_definition(&altered.definition)?;
        Ok(altered)
    }
}

fn drop_column(
    definition: &mut SearchDefinition,
    column: &str,
    kind: Option<IndexKind>,
) -> Result<(), DefinitionError> {
    let Some(place) = definition.place(column) else {
        let names = definition.columns.iter().map(|(name, _)| &**name);
        let near = did_you_mean(column, names).map(Into::into);
        return Err(DefinitionError::NoColumn { column: column.into(), kind: None, near });
    };
    let index = &mut definition.columns[place].1;
    match kind {
        Some(kind) if !index.has(kind) => {
            return Err(DefinitionError::NoColumn { column: column.into(), kind: Some(kind), near: None });
        }
        Some(kind) => index.remove(kind),
        None => *index = ColumnIndex::default(),
    }
    if index.kinds().next().is_none() {
        definition.columns.remove(place);
    }
    Ok(())
}

/// A kind of a column, with its options, as it is declared.
pub fn kind_text(index: &ColumnIndex, kind: IndexKind) -> String {
    let mut text = kind.text().to_owned();
    // Writing to a String does not fail.
    let _ = write_options_of_kind(&mut text, index, kind);
    text
}

fn write_options_of_kind(f: &mut String, index: &ColumnIndex, kind: IndexKind) -> fmt::Result {
    match kind {
        IndexKind::Text => {
            let TextIndex { analyzer, boost, has_positions } = index.text.unwrap_or_default();
            let stem = analyzer.stem.map(|language| format!("stem = '{}'", language_name(language)));
            let mut options: Vec<String> = stem.into_iter().collect();
            options.extend(analyzer.fold_accents.then(|| "fold = accents".to_owned()));
            options.extend(analyzer.split_code.then(|| "split = code".to_owned()));
            options.extend((!has_positions).then(|| "positions = false".to_owned()));
            if !options.is_empty() {
                write!(f, " ({})", options.join(", "))?;
            }
            if boost.to_bits() != 1.0_f32.to_bits() {
                write!(f, " BOOST {boost}")?;
            }
            Ok(())
        }
        IndexKind::Id => {
            let is_correlation = index.id.is_some_and(|id| id.is_correlation);
            f.write_str(when(is_correlation, " CORRELATION"))
        }
        IndexKind::Facet => match index.facet.as_ref().and_then(|facet| facet.separator.as_ref()) {
            Some(separator) => {
                f.write_char(' ')?;
                write_quoted(f, separator, '\'')
            }
            None => Ok(()),
        },
    }
}

fn items_text(column: &str, index: &ColumnIndex) -> impl Iterator<Item = String> {
    index.kinds().map(move |kind| format!("{} {}", name_text(column), kind_text(index, kind)))
}

fn names_text(names: &[Box<str>]) -> String {
    let names: Vec<String> = names.iter().map(|name| name_text(name)).collect();
    format!("({})", names.join(", "))
}

impl Display for CreateSearchIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE SEARCH INDEX {}ON ", when(self.if_not_exists, "IF NOT EXISTS "))?;
        write_name(f, &self.table)?;
        let SearchDefinition { columns, covers_all, defaults } = &self.definition;
        let declared = columns.iter().flat_map(|(column, index)| items_text(column, index));
        let items: Vec<String> = declared.chain(covers_all.then(|| "*".to_owned())).collect();
        write!(f, " (\n  {}\n)", items.join(",\n  "))?;
        match defaults.is_empty() {
            true => Ok(()),
            false => write!(f, " WITH (default = {})", names_text(defaults)),
        }
    }
}

impl Display for AlterSearchIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ALTER SEARCH INDEX ON ")?;
        write_name(f, &self.table)?;
        for (at, change) in self.changes.iter().enumerate() {
            write!(f, "{} {change}", when(at > 0, ","))?;
        }
        Ok(())
    }
}

impl Display for SearchIndexChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SearchIndexChange::Add { column, index } => {
                items_text(column, index).try_for_each(|item| write!(f, "ADD {item}"))
            }
            SearchIndexChange::AddAll => f.write_str("ADD *"),
            SearchIndexChange::Drop { column, kind } => {
                f.write_str("DROP ")?;
                write_name(f, column)?;
                kind.map_or(Ok(()), |kind| write!(f, " {}", kind.text()))
            }
            SearchIndexChange::DropAll => f.write_str("DROP *"),
            SearchIndexChange::SetDefaults(columns) => write!(f, "SET (default = {})", names_text(columns)),
            SearchIndexChange::ResetDefaults => f.write_str("RESET (default)"),
        }
    }
}

impl Display for RebuildSearchIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ALTER SEARCH INDEX ON ")?;
        write_name(f, &self.table)?;
        f.write_str(" REBUILD")?;
        for (word, bound) in [("FROM", &self.from), ("TO", &self.to)] {
            if let Some(RebuildBound { text, .. }) = bound {
                write!(f, " {word} ")?;
                write_quoted(f, text, '\'')?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
