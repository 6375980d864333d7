//! Plans a syntax tree: determines the kind of the query, and resolves its names.
//!
//! Errors are reported by phase, each phase as a whole: first the structure of the query ([`structure`]), then names and
//! types. The outer query of two is checked when the inner one is valid: its fields are the inner one's columns.
//!
//! A name resolves as follows:
//!
//! - In WHERE, GROUP BY and aggregates, and in the items of a RAW query: a column of a lateral view, else a field of the
//!   event. Qualified by the name of a join: a column of the joined rows.
//! - In HAVING and ORDER BY: an output column (by alias, or by the text of its expression, `"COUNT(*)"`), else a key or,
//!   in a RAW query, a field.
//! - In the items of a grouped query: a key, else another output column.
//! - In GROUP BY (native), an item that is only a name: an output column, else a field.
//! - `window_start` and `window_end` (native): the bounds of a grouped query's window, unless something else has these
//!   names. In GROUP BY with WINDOWING they add nothing, because each group belongs to one window.

mod bullet_check;
mod bullet_names;
mod check;
mod columns;
mod fields;
mod group;
mod grouping;
mod join;
mod lower;
mod path;
mod pattern;
mod result;
mod search;
mod stream_join;
mod structure;
mod table;
mod warnings;
mod window;

pub(crate) use stream_join::plan_join;
pub(crate) use warnings::find as find_warnings;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use self::{
    bullet_names::AggregationOutputs,
    check::{Ty, exploded},
    columns::{Column, ColumnValue, TableItem},
    fields::Fields,
    join::JoinSource,
    lower::{Scope, Typed},
    pattern::PatternScope,
    table::Table,
};
use crate::{
    Dialect, Joined, ParseOptions, TypedStatement,
    ast::{self, Duration, Item, Node, Source, View},
    names::{column_name, node_name},
    plan::{
        Aggregate, Body, Expr, LateralView, Literal, OutputColumn, Query, Raw, SortKey, Star, Statement,
        Window,
    },
    query_text::query_text,
    source::Fault,
};

/// Plans a statement.
pub(crate) fn plan(
    text: &str,
    ast: &ast::Statement,
    options: &ParseOptions<'_>,
) -> Result<Statement, Vec<Fault>> {
    plan_with_fields(text, ast, options).map(|(statement, _)| statement)
}

/// Plans a statement, and tells the types of its columns.
pub(crate) fn plan_typed(
    text: &str,
    ast: &ast::Statement,
    options: &ParseOptions<'_>,
) -> Result<TypedStatement, Vec<Fault>> {
    let (statement, fields) = plan_with_fields(text, ast, options)?;
    let outermost = statement.query.outer.as_deref().unwrap_or(&statement.query);
    let checked = |column: &OutputColumn| (column.name.clone(), fields.checked(&column.name));
    let columns = match &outermost.body {
        Body::Raw(raw) if raw.star.is_some() => None,
        Body::Raw(raw) => Some(raw.columns.iter().map(checked).collect()),
        Body::Group(group) => {
            let slots = join::slot_types(&outermost.views);
            let typed =
                |column: &OutputColumn| (column.name.clone(), result::type_of(&column.expr, group, &slots));
            Some(group.columns.iter().map(typed).collect())
        }
    };
    Ok((statement, columns))
}

fn plan_with_fields<'a>(
    text: &str,
    ast: &'a ast::Statement,
    options: &ParseOptions<'a>,
) -> Result<(Statement, Fields<'a>), Vec<Fault>> {
    let outermost = &ast.query;
    let texts = QueryTexts {
        text: text.into(),
        printed: match options.dialect {
            Dialect::Native => text.into(),
            Dialect::Bullet => query_text(outermost, options.now).into(),
        },
    };
    let check = |query| structure::check(query, options);
    let (query, fields) = match &outermost.source {
        Source::Stream(_) => {
            sound(check(outermost))?;
            check_as_bullet(outermost, None, options)?;
            plan_over_stream(&texts, outermost, options)?
        }
        Source::Query(inner) => {
            let mut faults = check(inner);
            faults.extend(check(outermost));
            sound(faults)?;
            check_as_bullet(inner, Some(outermost), options)?;
            let (mut query, fields) = plan_over_stream(&texts, inner, options)?;
            let (outer, fields) = plan_query(&texts, outermost, options, fields)?;
            query.outer = Some(Box::new(outer));
            (query, fields)
        }
    };
    Ok((Statement { explain: ast.explain, query }, fields))
}

/// Plans an expression that stands alone, over fields of events; also answers its type, where that is known.
pub(crate) fn plan_expression(
    node: &Node,
    options: &ParseOptions<'_>,
) -> Result<(Expr, Option<swiftwater_event::Type>), Vec<Fault>> {
    planned(node, Planner::new(options, Fields::of_stream(options), false))
}

fn planned(
    node: &Node,
    mut planner: Planner<'_>,
) -> Result<(Expr, Option<swiftwater_event::Type>), Vec<Fault>> {
    let typed = planner.lower(node.bare(), Scope::Event);
    match typed {
        Some(Typed { expr, ty }) if planner.faults.is_empty() => {
            let ty = match ty {
                Ty::Known(ty) => Some(ty),
                Ty::Unknown | Ty::Null => None,
            };
            Ok((expr, ty))
        }
        _ if planner.faults.is_empty() => {
            Err(vec![Fault::at(node.span, "this expression cannot be planned")])
        }
        _ => Err(planner.faults),
    }
}

/// Plans an expression of the native dialect over slots that have names, of which a later one hides an earlier one of its
/// name; NOW is the slot behind them all. Also answers its type, where that is known. `what` is the kind of the slots,
/// for the error of an unknown name.
pub(crate) fn plan_over_slots(
    node: &Node,
    slots: &[(Box<str>, swiftwater_event::Type)],
    what: &'static str,
) -> Result<(Expr, Option<swiftwater_event::Type>), Vec<Fault>> {
    let options = ParseOptions::new(Dialect::Native, 0);
    let mut planner = Planner::new(&options, Fields::of_stream(&options), false);
    let column = |(name, ty): &(Box<str>, swiftwater_event::Type)| ViewColumn {
        name: name.clone(),
        ty: ty.clone().into(),
        source: None,
    };
    planner.view_columns = slots.iter().map(column).collect();
    planner.only_slots = Some(what);
    planned(node, planner)
}

fn sound(faults: Vec<Fault>) -> Result<(), Vec<Fault>> {
    if faults.is_empty() { Ok(()) } else { Err(faults) }
}

/// Checks that Bullet makes before it builds a query, in Bullet's dialect: an invalid window, which is then its only
/// error; otherwise the faults of names and types.
fn check_as_bullet(
    query: &ast::Query,
    outer: Option<&ast::Query>,
    options: &ParseOptions<'_>,
) -> Result<(), Vec<Fault>> {
    if options.dialect == Dialect::Native {
        return Ok(());
    }
    let mut planner = Planner::new(options, Fields::of_stream(options), false);
    planner.window(query);
    sound(planner.faults)?;
    sound(bullet_check::check(query, outer, options))
}

/// The texts that each query of a statement shows for itself.
struct QueryTexts {
    text: Arc<str>,
    printed: Arc<str>,
}

/// Plans a query over a stream, or over the matches of a pattern in it.
fn plan_over_stream<'a>(
    texts: &QueryTexts,
    ast: &'a ast::Query,
    options: &ParseOptions<'a>,
) -> Result<(Query, Fields<'a>), Vec<Fault>> {
    match &ast.recognize {
        Some(recognize) => pattern::plan(texts, ast, recognize, options),
        None => plan_query(texts, ast, options, Fields::of_stream(options)),
    }
}

/// Plans one query; also returns the fields of its records.
fn plan_query<'a>(
    texts: &QueryTexts,
    ast: &'a ast::Query,
    options: &ParseOptions<'a>,
    fields: Fields<'a>,
) -> Result<(Query, Fields<'a>), Vec<Fault>> {
    let is_group = ast.distinct.is_some() || ast.group_by.is_some() || has_aggregates(ast);
    let mut planner = Planner::new(options, fields, is_group);
    match planner.query(texts, ast) {
        Some(query) if planner.faults.is_empty() => {
            let fields = planner.fields_of_result(&query);
            Ok((query, fields))
        }
        _ => {
            if planner.faults.is_empty() {
                planner.faults.push(Fault::whole("this query cannot be planned"));
            }
            Err(planner.faults)
        }
    }
}

/// A column of a lateral view or of what is joined: a slot of the expressions over the event.
struct ViewColumn {
    name: Box<str>,
    ty: Ty,
    /// The joined object, for its columns.
    source: Option<usize>,
}

struct Planner<'a> {
    dialect: Dialect,
    now: i64,
    /// See [`ParseOptions::lists_rows`].
    lists_rows: bool,
    fields: Fields<'a>,
    faults: Vec<Fault>,
    /// Faults are looked for, but will be forgotten.
    trying: usize,
    /// Parts of expressions copied so far.
    copies: usize,
    view_columns: Vec<ViewColumn>,
    /// The stream, and what is joined, in the order of the text.
    sources: Vec<JoinSource<'a>>,
    /// The objects that can be joined.
    joined: Option<&'a [Joined]>,
    /// The event's own fields cannot be named: EXPLODE stands in the select list.
    only_views: bool,
    /// The kind of slots if names are slots, as there are no fields.
    only_slots: Option<&'static str>,
    columns: Vec<Column<'a>>,
    /// Items left out because a column has their text.
    dropped: Vec<(usize, &'a Node)>,
    /// The item whose aggregate gives rows.
    table_item: Option<TableItem<'a>>,
    values: Vec<ColumnValue>,
    columns_by_name: HashMap<Box<str>, usize>,
    /// The columns by name in lower case; `None` if several columns have it.
    columns_by_folded_name: HashMap<String, Option<usize>>,
    columns_by_text: HashMap<String, usize>,
    /// The output of the aggregation by name, in Bullet's dialect.
    base: AggregationOutputs<'a>,
    /// True if what the outer query names by an inner expression's text is found (Bullet).
    sees_inner_texts: bool,
    /// Columns within columns whose values are underway.
    naming: usize,
    /// True if there is GROUP BY, DISTINCT or an aggregate.
    is_group: bool,
    /// True if there is WINDOWING.
    has_windows: bool,
    keys: Vec<Typed>,
    /// True if a key has a fault, so that a name that is no key may be that one (native).
    keys_are_faulty: bool,
    aggregates: Vec<Aggregate>,
    table: Option<Table>,
    /// The pattern that is being planned.
    recognizing: Option<Box<PatternScope>>,
    /// Keys, by GROUPING that asks of them.
    groupings: Vec<Box<[usize]>>,
}

impl<'a> Planner<'a> {
    fn new(options: &ParseOptions<'a>, fields: Fields<'a>, is_group: bool) -> Planner<'a> {
        Planner {
            dialect: options.dialect,
            now: options.now,
            lists_rows: options.lists_rows,
            fields,
            faults: Vec::new(),
            trying: 0,
            copies: 0,
            view_columns: Vec::new(),
            sources: Vec::new(),
            joined: options.joined,
            only_views: false,
            only_slots: None,
            columns: Vec::new(),
            dropped: Vec::new(),
            table_item: None,
            values: Vec::new(),
            columns_by_name: HashMap::new(),
            columns_by_folded_name: HashMap::new(),
            columns_by_text: HashMap::new(),
            base: AggregationOutputs::default(),
            sees_inner_texts: true,
            naming: 0,
            is_group,
            has_windows: false,
            keys: Vec::new(),
            keys_are_faulty: false,
            aggregates: Vec::new(),
            table: None,
            recognizing: None,
            groupings: Vec::new(),
        }
    }

    fn query(&mut self, texts: &QueryTexts, ast: &'a ast::Query) -> Option<Query> {
        self.has_windows = ast.window.is_some();
        self.name_sources(ast);
        self.collect_columns(ast);
        if !self.faults.is_empty() {
            return None;
        }
        let views = self.views(ast);
        let window = self.window(ast);
        if self.dialect == Dialect::Bullet && window.is_none() {
            return None;
        }
        let filter = ast.filter.as_ref().and_then(|node| self.condition(node, Scope::Event));
        let is_group = self.is_group;
        let (body, order_by, limit) = if is_group { self.group(ast)? } else { self.raw(ast) };
        self.check_dropped();
        let window = window.unwrap_or(Window::None);
        if self.dialect == Dialect::Native || self.faults.is_empty() {
            self.check_window(ast, &window, is_group);
        }
        let (stream, duration_ms) = match &ast.source {
            Source::Stream(stream) => (stream.name.clone(), stream.duration.clone()),
            Source::Query(_) => (None, None),
        };
        Some(Query {
            text: Arc::clone(&texts.text),
            printed: Arc::clone(&texts.printed),
            dialect: self.dialect,
            stream,
            duration_ms: match duration_ms {
                Some(Duration::Ms(ms)) => Some(ms),
                Some(Duration::Max) | None => None,
            },
            sample: ast.sample,
            pattern: None,
            views,
            filter,
            body,
            order_by,
            limit,
            window,
            outer: None,
        })
    }

    // ---- lateral views

    fn views(&mut self, ast: &ast::Query) -> Vec<LateralView> {
        let mut views = Vec::new();
        for place in 0..=ast.views.len() {
            for (number, join) in ast.joins.iter().enumerate().filter(|(_, join)| join.behind == place) {
                views.extend(self.join(number, join));
            }
            views.extend(ast.views.get(place).and_then(|view| self.view(view)));
        }
        // The same EXPLODE twice is one.
        if let Some(view) = ast.explodes().next() {
            views.extend(self.view(view));
            self.only_views = true;
        }
        views
    }

    fn view(&mut self, view: &View) -> Option<LateralView> {
        let typed = self.lower(&view.argument, Scope::Event);
        let ty = typed.as_ref().map_or(Ty::Unknown, |typed| typed.ty.clone());
        let types = exploded(view.columns.len(), &ty);
        let names = view.columns.iter().map(|name| name.text.clone());
        let columns: Vec<Box<str>> = names.collect();
        for (name, ty) in columns.iter().zip(types) {
            self.view_columns.push(ViewColumn { name: name.clone(), ty, source: None });
        }
        Some(LateralView { expr: typed?.expr, is_outer: view.is_outer, columns, join: None })
    }

    /// The columns of the views, the last of each name; those of what is joined with the name of that before them, and none
    /// where EXPLODE stands in the select list.
    fn output_of_views(&self) -> Vec<OutputColumn> {
        let mut columns: Vec<OutputColumn> = Vec::new();
        let mut places: HashMap<Box<str>, usize> = HashMap::new();
        for (slot, column) in self.view_columns.iter().enumerate() {
            if self.only_views && column.source.is_some() {
                continue;
            }
            let name = self.name_of_joined(column);
            let place = *places.entry(name.clone()).or_insert(columns.len());
            let output = OutputColumn { name, expr: self.view_value(slot) };
            match columns.get_mut(place) {
                Some(shadowed) => *shadowed = output,
                None => columns.push(output),
            }
        }
        columns
    }

    // ---- queries without aggregation

    fn raw(&mut self, ast: &'a ast::Query) -> (Body, Vec<SortKey>, Option<u64>) {
        let has_star = ast.star().is_some();
        let star = has_star.then(|| Star { without: self.renamed_fields(ast) });
        let mut views = if has_star || self.only_views { self.output_of_views() } else { Vec::new() };
        if let Some(star) = &star {
            views.retain(|column| star.without.binary_search(&column.name).is_err());
        }
        let columns = self.output_columns(views);
        let order_by = self.order_by(ast, Scope::RawOrder);
        (Body::Raw(Raw { star, columns }), order_by, ast.limit)
    }

    /// Bullet's `*, a AS b` renames: the fields, of the event or of lateral views, whose own name no item has. Sorted.
    fn renamed_fields(&self, ast: &ast::Query) -> Vec<Box<str>> {
        if self.dialect != Dialect::Bullet {
            return Vec::new();
        }
        let mut names: BTreeSet<&str> = BTreeSet::new();
        let mut renamed = Vec::new();
        for item in &ast.items {
            let Item::Expr { node, alias } = item else { continue };
            let ast::NodeKind::Name(field) = &unhinted(node).kind else { continue };
            match alias {
                Some(alias) if alias.text != field.text => renamed.push(field.text.clone()),
                _ => {
                    names.insert(&field.text);
                }
            }
        }
        names.extend(self.columns.iter().map(|column| &*column.name));
        renamed.sort();
        renamed.dedup();
        renamed.retain(|field| !names.contains(&**field));
        renamed
    }

    // ---- parts of all kinds

    fn condition(&mut self, node: &Node, scope: Scope) -> Option<Expr> {
        self.lower(node.bare(), scope).map(|typed| typed.expr)
    }

    fn order_by(&mut self, ast: &'a ast::Query, scope: Scope) -> Vec<SortKey> {
        let has_star = ast.star().is_some();
        let mut keys = Vec::new();
        for order in &ast.order_by {
            let node = &order.node;
            let place = match &node.kind {
                ast::NodeKind::Literal(literal) if self.dialect.numbers_are_positions() => position(literal),
                _ => None,
            };
            let typed = match place {
                Some(_) if has_star => self
                    .fault(Fault::at(node.span, "a position is ambiguous after `*`").hint("Name the field.")),
                Some(place) => match self.column_at(node, place) {
                    Ok(column) => self.column_value(column),
                    Err(fault) => self.fault(fault),
                },
                None => self.lower(node.bare(), scope),
            };
            let Some(typed) = typed else { continue };
            let is_cast = self.dialect == Dialect::Bullet
                && matches!(node.bare().kind, ast::NodeKind::Cast(..))
                && self.bullet_resolved(node.bare(), scope).is_none();
            keys.push(SortKey { expr: typed.expr, descending: order.descending, is_cast });
        }
        keys
    }

    fn item_scope(&self) -> Scope {
        if self.is_group { Scope::GroupItem } else { Scope::Event }
    }

    /// The text of an expression, which names its column.
    fn text_of(&self, node: &Node) -> String {
        column_name(node, (self.dialect == Dialect::Bullet).then_some(self.now))
    }

    /// The same of an expression within another, where parentheses count in Bullet's dialect.
    fn text_within(&self, node: &Node) -> String {
        node_name(node, (self.dialect == Dialect::Bullet).then_some(self.now))
    }

    // ---- faults

    /// Records a fault.
    fn record_fault(&mut self, fault: Fault) {
        self.faults.push(fault);
    }

    /// Records a fault.
    fn fault<T>(&mut self, fault: Fault) -> Option<T> {
        self.record_fault(fault);
        None
    }

    /// Tries to plan something, and forgets its faults; `None` if it had any.
    fn try_plan<T>(&mut self, act: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let (faults, copies) = (self.faults.len(), self.copies);
        self.trying += 1;
        let done = act(self);
        self.trying -= 1;
        let is_sound = self.faults.len() == faults;
        self.faults.truncate(faults);
        self.copies = copies;
        done.filter(|_| is_sound)
    }
}

fn unhinted(node: &Node) -> &Node {
    match &node.bare().kind {
        ast::NodeKind::Hint(base, _) => base.bare(),
        _ => node.bare(),
    }
}

fn has_aggregates(ast: &ast::Query) -> bool {
    let order_by = ast.order_by.iter().map(|order| &order.node);
    ast.item_nodes().chain(order_by).any(|node| node.aggregate().is_some())
}

fn position(literal: &Literal) -> Option<i64> {
    match literal {
        Literal::Integer(value) => Some(i64::from(*value)),
        Literal::Long(value) => Some(*value),
        _ => None,
    }
}
