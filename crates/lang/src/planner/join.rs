//! Plans joins: resolves the names of the stream and of the joined rows, and determines the look-up keys.
//!
//! A column of the joined rows is qualified by their name: `u.country`. A bare name is a field of the event, and is
//! refused if it could also be such a column.

use std::collections::BTreeMap;

use swiftwater_event::{Primitive, Type, did_you_mean};

use super::{
    Planner, Typed, ViewColumn,
    check::{Ty, exploded},
    lower::Scope,
    result::of_event,
};
use crate::{
    Dialect, Joined,
    ast::{self, Binary, Name, Node, NodeKind},
    lexer::short,
    plan::{Comparison, Expr, Function, Join, LateralView, Literal, Quantifier},
    source::Fault,
};

/// The meaning of a name before a dot.
pub(super) struct JoinSource<'a> {
    /// The name.
    alias: Box<str>,
    /// The definition of a joined object; none: it is the stream.
    joined: Option<&'a Joined>,
    /// The slot of its first column, when that has one.
    first_slot: Option<usize>,
    /// True if the query gave it that name.
    is_called: bool,
}

impl<'a> Planner<'a> {
    /// Gathers what can stand before a dot.
    pub(super) fn name_sources(&mut self, ast: &'a ast::Query) {
        let ast::Source::Stream(stream) = &ast.source else { return };
        if ast.recognize.is_some() {
            return;
        }
        let named = stream.name.as_ref().filter(|_| !ast.joins.is_empty());
        let alias = match &ast.alias {
            Some(alias) => Some(alias.text.clone()),
            None => named.map(|name| name.as_str().into()),
        };
        // One that no name can stand for has its place all the same.
        let alias = alias.unwrap_or_default();
        let is_called = ast.alias.is_some();
        self.sources.push(JoinSource { alias, joined: None, first_slot: None, is_called });
        for join in &ast.joins {
            let name = join.alias.as_ref().unwrap_or(&join.name);
            if self.sources.iter().any(|source| source.alias == name.text) {
                let fault = Fault::at(name.span, format!("two sources are named `{}`", short(&name.text)));
                self.record_fault(fault.hint("Rename one of them with AS."));
            }
            let joined = self.find_joined(&join.name);
            let alias = name.text.clone();
            self.sources.push(JoinSource { alias, joined, first_slot: None, is_called: true });
        }
    }

    fn find_joined(&mut self, name: &Name) -> Option<&'a Joined> {
        let Some(all) = self.joined else {
            let fault = Fault::at(name.span, "this server has no views and tables to join with");
            return self.fault(fault.hint("Start the server with a data directory."));
        };
        let found = all.iter().find(|joined| joined.name == name.text);
        if found.is_none() {
            let message = format!("there is no view or table `{}`", short(&name.text));
            let hint = "Join a materialized view, by its key, or a table.";
            self.record_fault(Fault::at(name.span, message).hint(hint));
        }
        found
    }

    /// The source that a node names, if it is the name of one.
    pub(super) fn source_of(&self, base: &Node) -> Option<usize> {
        let NodeKind::Name(name) = &base.bare().kind else { return None };
        let is_it = |source: &JoinSource<'_>| source.alias == name.text;
        let is_like = |source: &JoinSource<'_>| !name.quoted && source.alias.eq_ignore_ascii_case(&name.text);
        self.sources.iter().position(is_it).or_else(|| self.sources.iter().position(is_like))
    }

    /// The name of an item without an alias that is just a column after the name of its source: that of the column.
    pub(super) fn name_behind_source<'n>(&self, node: &'n Node) -> Option<&'n str> {
        match &node.kind {
            NodeKind::Member(base, name) if self.source_of(base).is_some() => Some(&name.text),
            _ => None,
        }
    }

    /// A column of what is joined, or a field of the stream's events, behind its name.
    pub(super) fn column_of_source(
        &mut self,
        node: &Node,
        source: usize,
        name: &Name,
        root: Option<&Type>,
        scope: Scope,
    ) -> Option<Typed> {
        if scope.is_group() {
            return self.no_key(node);
        }
        let JoinSource { alias, joined, first_slot, .. } = &self.sources[source];
        if source == 0 {
            return self.event_field(node, name, root);
        }
        // Its fault is noted.
        let joined: &Joined = (*joined)?;
        let Some(first_slot) = *first_slot else {
            let message = format!("`{alias}` is joined only after this condition");
            return self.fault(Fault::at(node.span, message));
        };
        let place = self.column_place(joined, name)?;
        let ty = root.map_or_else(|| joined.columns[place].1.clone(), Type::clone);
        Some(Typed { expr: Expr::Slot(first_slot + place), ty: ty.into() })
    }

    fn column_place(&mut self, joined: &Joined, name: &Name) -> Option<usize> {
        let names = || joined.columns.iter().map(|(name, _)| &**name);
        let exact = names().position(|column| *column == *name.text);
        let like = || {
            let mut alike = names()
                .enumerate()
                .filter(|(_, column)| !name.quoted && column.eq_ignore_ascii_case(&name.text));
            alike.next().filter(|_| alike.next().is_none()).map(|(place, _)| place)
        };
        let place = exact.or_else(like);
        if place.is_none() {
            let kind = if joined.key.is_some() { "view" } else { "table" };
            let message = format!("{kind} `{}` has no column `{}`", joined.name, short(&name.text));
            let fault = Fault::at(name.span, message);
            self.record_fault(match did_you_mean(&name.text, names()) {
                Some(near) => fault.hint(format!("Did you mean `{near}`?")),
                None => fault.hint(format!("It has {}.", listed(names()))),
            });
        }
        place
    }

    /// Records a fault for a name without its source if there are several; `None` then.
    pub(super) fn is_of_one_source(&mut self, node: &Node, name: &Name) -> Option<()> {
        if self.sources.is_empty() || self.dialect == Dialect::Bullet {
            return Some(());
        }
        let is_called = |source: &&JoinSource<'_>| source.is_called && source.alias == name.text;
        if let Some(source) = self.sources.iter().find(is_called) {
            let message = format!("`{}` is the name of a whole row or event", short(&source.alias));
            let hint = format!("Name a column of it, such as `{}.x`.", source.alias);
            return self.fault(Fault::at(node.span, message).hint(hint));
        }
        let has_it = |source: &&JoinSource<'_>| {
            let columns = source.joined.iter().flat_map(|joined| &joined.columns);
            columns.into_iter().any(|(column, _)| **column == *name.text)
        };
        let Some(source) = self.sources.iter().find(has_it) else { return Some(()) };
        let (of, column) = (&source.alias, short(&name.text));
        let message = format!("`{column}` may be a field of the event or a column of `{of}`");
        let hint = match &*self.sources[0].alias {
            "" => format!("Write `{of}.{column}`, or name the stream with AS for the other."),
            stream => format!("Write `{of}.{column}` or `{stream}.{column}`."),
        };
        self.fault(Fault::at(node.span, message).hint(hint))
    }

    /// Plans a join; its columns have slots from then on.
    pub(super) fn join(&mut self, number: usize, join: &ast::Join) -> Option<LateralView> {
        let source = number + 1;
        let planned = self.join_key(source, join);
        let joined = self.sources.get(source)?.joined?;
        self.sources[source].first_slot = Some(self.view_columns.len());
        for (name, ty) in &joined.columns {
            let column = ViewColumn { name: name.clone(), ty: ty.clone().into(), source: Some(source) };
            self.view_columns.push(column);
        }
        let (key, values) = planned?;
        Some(LateralView {
            expr: Expr::Call { function: Function::List, args: values },
            is_outer: join.is_outer,
            columns: joined.columns.iter().map(|(name, _)| name.clone()).collect(),
            join: Some(Box::new(Join {
                name: joined.name.clone(),
                id: joined.id,
                is_view: joined.key.is_some(),
                key,
                types: joined.columns.iter().map(|(_, ty)| ty.clone()).collect(),
            })),
        })
    }

    /// The columns that rows are looked up by, and what they are to be equal to.
    fn join_key(&mut self, source: usize, join: &ast::Join) -> Option<(Vec<usize>, Vec<Expr>)> {
        let joined = self.sources.get(source)?.joined?;
        let faults = self.faults.len();
        let mut by_column: BTreeMap<usize, Expr> = BTreeMap::new();
        for part in parts(&join.on) {
            let Some((column, value)) = self.key_part(source, joined, part) else { continue };
            if by_column.insert(column, value).is_some() {
                let message = format!("`{}` occurs twice in ON", joined.columns[column].0);
                self.record_fault(Fault::at(part.span, message));
            }
        }
        if self.faults.len() > faults {
            return None;
        }
        let Some(key) = &joined.key else {
            if by_column.is_empty() {
                let fault = Fault::at(join.on.span, format!("ON names no column of `{}`", joined.name));
                return self.fault(fault.hint("Write with columns that equal fields of the event."));
            }
            return Some(by_column.into_iter().unzip());
        };
        let Some(columns) = key.iter().copied().collect::<Option<Vec<usize>>>() else {
            let message = format!("view `{}` does not select all values of its key", joined.name);
            let hint = "Select every GROUP BY expression, unchanged, in the view's query.";
            return self.fault(Fault::at(join.name.span, message).hint(hint));
        };
        let mut values = Vec::new();
        for column in &columns {
            let name = &joined.columns[*column].0;
            let Some(value) = by_column.remove(column) else {
                let message =
                    format!("ON lacks `{name}`, which is part of the key of view `{}`", joined.name);
                let fault = Fault::at(join.on.span, message);
                return self
                    .fault(fault.hint(format!("A view is joined by its whole key: {}.", key_names(joined))));
            };
            values.push(value);
        }
        if let Some((column, _)) = by_column.first_key_value() {
            let name = &joined.columns[*column].0;
            let message = format!("`{name}` is not part of the key of view `{}`", joined.name);
            let hint = format!(
                "A view is joined by its key, which is {}; write other conditions in WHERE.",
                key_names(joined)
            );
            return self.fault(Fault::at(join.on.span, message).hint(hint));
        }
        Some((columns, values))
    }

    /// One equality of ON.
    fn key_part(&mut self, source: usize, joined: &Joined, part: &Node) -> Option<(usize, Expr)> {
        let alias = self.sources[source].alias.clone();
        let hint = format!("Write `{alias}.column = …` for each, with AND between them.");
        let NodeKind::Binary(Binary::Compare(Comparison::Eq, Quantifier::One), left, right) = &part.kind
        else {
            let fault = Fault::at(part.span, "ON may contain only equalities of columns");
            return self.fault(fault.hint(hint));
        };
        let column_of = |node: &Node| match &node.bare().kind {
            NodeKind::Member(base, name) if self.source_of(base) == Some(source) => Some(name.clone()),
            _ => None,
        };
        let (name, value) = match (column_of(left), column_of(right)) {
            (Some(name), None) => (name, right),
            (None, Some(name)) => (name, left),
            (None, None) => {
                let fault = Fault::at(part.span, format!("neither side of this is a column of `{alias}`"));
                return self.fault(fault.hint(hint));
            }
            (Some(_), Some(_)) => {
                let fault = Fault::at(part.span, format!("both sides of this are columns of `{alias}`"));
                return self.fault(fault.hint("Write conditions on one row in WHERE."));
            }
        };
        let column = self.column_place(joined, &name);
        let value = self.lower(value.bare(), Scope::Event);
        let (column, mut value) = (column?, value?);
        // A time is text in an event, and is equal to another time only.
        let is_time = matches!(joined.columns[column].1, Type::Primitive(Primitive::Timestamp(_)));
        if let Expr::Path { ty, .. } = &mut value.expr
            && is_time
            && *ty == Type::Any
        {
            *ty = joined.columns[column].1.clone();
        }
        Some((column, value.expr))
    }

    /// The name of a joined object's column in the result of `*`.
    pub(super) fn name_of_joined(&self, column: &ViewColumn) -> Box<str> {
        match column.source.and_then(|source| self.sources.get(source)) {
            Some(source) => format!("{}.{}", source.alias, column.name).into(),
            None => column.name.clone(),
        }
    }
}

/// The operands of AND, however it is nested; none for what is always true.
fn parts(on: &Node) -> Vec<&Node> {
    match &on.bare().kind {
        NodeKind::And(operands) => operands.iter().flat_map(parts).collect(),
        NodeKind::Literal(Literal::Boolean(true)) => Vec::new(),
        _ => vec![on.bare()],
    }
}

fn key_names(joined: &Joined) -> String {
    let key = joined.key.iter().flatten().flatten();
    listed(key.map(|&column| &*joined.columns[column].0))
}

fn listed<'n>(names: impl Iterator<Item = &'n str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

/// The types of the slots over events, where they are known.
pub(super) fn slot_types(views: &[LateralView]) -> Vec<Ty> {
    let mut slots: Vec<Ty> = Vec::new();
    for view in views {
        let types = match &view.join {
            Some(join) => join.types.iter().map(|ty| ty.clone().into()).collect(),
            None => exploded(view.columns.len(), &of_event(&view.expr, &slots)),
        };
        slots.extend(types);
    }
    slots
}
