//! The known fields of a query's events, and their types.
//!
//! A stream's schema and the declared contents of its records define them. An outer query has the columns of the inner
//! one.

use std::{borrow::Cow, collections::HashMap};

use swiftwater_event::{Path, Type};

use crate::{Dialect, ParseOptions, Schema, TimeBounds, ast::Name};

/// The fields of a query's events.
pub(super) struct Fields<'a> {
    /// The schema against which a query is checked.
    schema: Option<Cow<'a, Schema>>,
    /// The types as which values are wanted; if missing, those of the schema.
    types: Option<Cow<'a, Schema>>,
    /// True if there are no others than those of the schema.
    is_closed: bool,
    /// They are the columns of an inner query.
    pub(super) are_columns: bool,
    /// They are what a pattern gives.
    pub(super) of_pattern: bool,
    /// The fields by name in lower case; `None` if several have it.
    by_folded_name: HashMap<String, Option<Box<str>>>,
    /// The texts of an inner query's expressions that have another name, in Bullet's dialect.
    aliases: HashMap<String, Box<str>>,
}

impl<'a> Fields<'a> {
    /// The fields of a stream.
    pub(super) fn of_stream(options: &ParseOptions<'a>) -> Fields<'a> {
        let fields = Fields {
            schema: options.schema.map(Cow::Borrowed),
            types: options.types.map(Cow::Borrowed),
            is_closed: options.schema.is_some() && options.dialect == Dialect::Bullet,
            are_columns: false,
            of_pattern: false,
            by_folded_name: HashMap::new(),
            aliases: HashMap::new(),
        };
        fields.folded(options.dialect)
    }

    /// The fields of an inner query's records: columns, each with its type for checks and its own type. `others`:
    /// the fields of the events, which the inner query passes on, less those it leaves out.
    pub(super) fn of_query(
        columns: Vec<(Box<str>, Type, Type)>,
        others: Option<(&Fields<'a>, &[Box<str>])>,
        dialect: Dialect,
    ) -> Fields<'a> {
        let passed_on = |schema: Option<&Cow<'a, Schema>>, less: &[Box<str>]| -> Vec<(Box<str>, Type)> {
            let fields = schema.into_iter().flat_map(|schema| schema.fields());
            let fields = fields.filter(|(name, _)| !less.iter().any(|less| **less == **name));
            fields.map(|(name, ty)| (name.into(), ty.clone())).collect()
        };
        let mut paths: Vec<(Box<str>, Path)> = Vec::new();
        if let Some((fields, less)) = others {
            let known = fields.schema.iter().flat_map(|schema| schema.paths());
            let is_hidden = |name: &str| {
                less.iter().any(|less| **less == *name)
                    || columns.iter().any(|(column, _, _)| **column == *name)
            };
            let kept = known.filter(|(name, _)| !is_hidden(name));
            paths.extend(kept.map(|(name, path)| (name.into(), path.clone())));
        }
        let (mut checked, mut held) = match others {
            Some((fields, less)) => {
                let types = fields.types.as_ref().or(fields.schema.as_ref());
                (passed_on(fields.schema.as_ref(), less), passed_on(types, less))
            }
            None => (Vec::new(), Vec::new()),
        };
        for (name, ty, wanted) in columns {
            checked.push((name.clone(), ty));
            held.push((name, wanted));
        }
        // If all fields of unknown events are passed on, nothing can be checked.
        let is_open = others.is_some_and(|(fields, _)| fields.schema.is_none());
        let fields = Fields {
            schema: (!is_open).then(|| Cow::Owned(Schema::new(checked).with_paths(paths))),
            types: Some(Cow::Owned(Schema::new(held))),
            is_closed: others.is_none_or(|(fields, _)| fields.is_closed),
            are_columns: true,
            of_pattern: false,
            by_folded_name: HashMap::new(),
            aliases: HashMap::new(),
        };
        fields.folded(dialect)
    }

    /// The same with the texts of the inner query's expressions, and the names that they have.
    pub(super) fn named_by_text(mut self, aliases: HashMap<String, Box<str>>) -> Fields<'a> {
        self.aliases = aliases;
        self
    }

    /// The column that has this text for its name, or for that of its expression.
    pub(super) fn column_of_text(&self, text: &str) -> Option<Box<str>> {
        let is_column =
            self.schema.as_ref().or(self.types.as_ref()).is_some_and(|schema| schema.field(text).is_some());
        if is_column { Some(text.into()) } else { self.aliases.get(text).cloned() }
    }

    fn folded(mut self, dialect: Dialect) -> Fields<'a> {
        if dialect.folds_names() {
            let names =
                self.schema.as_ref().or(self.types.as_ref()).into_iter().flat_map(|schema| schema.fields());
            let mut by_folded_name: HashMap<String, Option<Box<str>>> = HashMap::new();
            for (name, _) in names {
                by_folded_name
                    .entry(name.to_lowercase())
                    .and_modify(|field| *field = None)
                    .or_insert_with(|| Some(name.into()));
            }
            self.by_folded_name = by_folded_name;
        }
        self
    }

    /// The field that a name refers to: exactly, else (native, unquoted) whatever the letter case if that is unique;
    /// `None`: it is not known.
    pub(super) fn resolve(&self, name: &Name) -> Option<Box<str>> {
        let listed = self.schema.as_ref().or(self.types.as_ref())?;
        if listed.field(&name.text).is_some() {
            return Some(name.text.clone());
        }
        if name.quoted {
            return None;
        }
        self.by_folded_name.get(&name.text.to_lowercase()).cloned().flatten()
    }

    /// True if a field that is not known is a fault.
    pub(super) fn is_closed(&self) -> bool {
        self.schema.is_some() && self.is_closed
    }

    /// The path of a field in an event.
    pub(super) fn path(&self, field: &str) -> Path {
        self.schema.as_ref().map_or_else(|| Path::field(field), |schema| schema.path(field))
    }

    /// The field that says when an event happened, and by how many milliseconds events may be late and ahead of their
    /// arrival, where that is declared.
    pub(super) fn watermark(&self) -> Option<(&str, TimeBounds)> {
        self.schema.as_ref().and_then(|schema| schema.watermark())
    }

    /// The type for checks of a field.
    pub(super) fn checked(&self, field: &str) -> Type {
        self.schema.as_ref().and_then(|schema| schema.field(field)).cloned().unwrap_or(Type::Any)
    }

    /// The type that a field is requested as.
    pub(super) fn requested_type(&self, field: &str) -> Type {
        let types = self.types.as_ref().or(self.schema.as_ref());
        types.and_then(|types| types.field(field)).cloned().unwrap_or(Type::Any)
    }

    /// The names of all known fields.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.schema
            .as_ref()
            .or(self.types.as_ref())
            .into_iter()
            .flat_map(|schema| schema.fields())
            .map(|(name, _)| name)
    }
}
