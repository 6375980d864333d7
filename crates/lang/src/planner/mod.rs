//! Syntax tree to plan: which kind of query it is, and what its names stand for.
//!
//! Faults come in phases, each reported whole: first what the query is as a whole (kinds that do not mix, aggregates
//! where none may stand), then names and types.
//!
//! What a name may mean. Within WHERE, GROUP BY and aggregates, and in the items of a RAW query: a field of the event.
//! In HAVING and ORDER BY: an output column (by alias, or by the text of its expression, `"COUNT(*)"`), else a key or, in a
//! RAW query, a field. In the items of a grouped query: a key, else another output column. In GROUP BY (native), an
//! item that is only a name: an output column, else a field.

mod check;
mod lower;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use self::lower::{Scope, Typed};
use crate::{
    Dialect, ParseOptions,
    ast::{self, Item, Name, Node, NodeKind},
    lexer::short,
    names::column_name,
    plan::{
        Aggregate, Body, Expr, Group, Literal, OutputColumn, Query, Raw, SortKey, Star, Statement, Take,
        Window,
    },
    source::{Fault, Span},
};

/// The most keys of GROUP BY or DISTINCT.
const KEYS_MAX: usize = 256;

/// Plans a statement.
pub(crate) fn plan(
    text: &str,
    ast: &ast::Statement,
    options: &ParseOptions<'_>,
) -> Result<Statement, Vec<Fault>> {
    let mut planner = Planner {
        dialect: options.dialect,
        options,
        faults: Vec::new(),
        copies: 0,
        columns: Vec::new(),
        dropped: Vec::new(),
        values: Vec::new(),
        columns_by_name: HashMap::new(),
        columns_by_folded_name: HashMap::new(),
        columns_by_text: HashMap::new(),
        fields_by_folded_name: HashMap::new(),
        naming: 0,
        is_group: ast.distinct.is_some() || ast.group_by.is_some() || has_aggregates(ast),
        keys: Vec::new(),
        keys_are_faulty: false,
        aggregates: Vec::new(),
    };
    let query = planner.query(text, ast);
    match query {
        Some(query) if planner.faults.is_empty() => Ok(Statement { explain: ast.explain, query }),
        _ => {
            if planner.faults.is_empty() {
                planner.faults.push(Fault::whole("this query cannot be planned"));
            }
            Err(planner.faults)
        }
    }
}

/// An output column before its value is worked out.
struct Column<'a> {
    node: &'a Node,
    name: Box<str>,
    /// The text of the expression, which names it too.
    text: String,
    span: Span,
}

/// How far a column's value is worked out.
enum ColumnValue {
    Not,
    Underway,
    Done(Option<Typed>),
}

struct Planner<'a> {
    dialect: Dialect,
    options: &'a ParseOptions<'a>,
    faults: Vec<Fault>,
    /// Parts of expressions copied so far.
    copies: usize,
    columns: Vec<Column<'a>>,
    /// Items left out because a column has their text.
    dropped: Vec<(usize, &'a Node)>,
    values: Vec<ColumnValue>,
    columns_by_name: HashMap<Box<str>, usize>,
    /// By name in lower case; `None` where several columns have it.
    columns_by_folded_name: HashMap<String, Option<usize>>,
    columns_by_text: HashMap<String, usize>,
    fields_by_folded_name: HashMap<String, Option<Box<str>>>,
    /// Columns within columns whose values are underway.
    naming: usize,
    /// There is GROUP BY, DISTINCT or an aggregate.
    is_group: bool,
    keys: Vec<Typed>,
    /// So that a name that is no key may be one that has a fault.
    keys_are_faulty: bool,
    aggregates: Vec<Aggregate>,
}

impl<'a> Planner<'a> {
    fn query(&mut self, text: &str, ast: &'a ast::Statement) -> Option<Query> {
        self.fold_schema();
        self.check_structure(ast);
        self.collect_columns(ast);
        if !self.faults.is_empty() {
            return None;
        }
        let filter = ast.filter.as_ref().and_then(|node| self.condition(node, Scope::Event, "WHERE"));
        let is_group = self.is_group;
        let (body, order_by) = if is_group { self.group(ast) } else { self.raw(ast) };
        let window = self.window(ast, is_group);
        self.check_dropped();
        Some(Query {
            text: Arc::from(text),
            dialect: self.dialect,
            stream: ast.stream.name.clone(),
            duration_ms: ast.stream.duration_ms,
            sample: ast.sample,
            views: Vec::new(),
            filter,
            body,
            order_by,
            limit: ast.limit,
            window,
            outer: None,
        })
    }

    fn fold_schema(&mut self) {
        let Some(schema) = self.options.schema.filter(|_| self.dialect.folds_names()) else { return };
        for (name, _) in schema.fields() {
            self.fields_by_folded_name
                .entry(name.to_lowercase())
                .and_modify(|field| *field = None)
                .or_insert_with(|| Some(name.into()));
        }
    }

    // ---- the query as a whole

    fn check_structure(&mut self, ast: &ast::Statement) {
        let star = ast.items.iter().find_map(|item| match item {
            Item::Star(span) => Some(*span),
            Item::Expr { .. } => None,
        });
        let aggregate = item_nodes(ast).find_map(Node::aggregate);
        let grouped = ast.group_by.as_ref().map(|group_by| group_by.span);
        let mut clash = |span: Option<Span>, message: &str, hint: &str| {
            if let Some(span) = span {
                self.faults.push(Fault::at(span, message).hint(hint));
            }
        };
        if let Some(distinct) = ast.distinct {
            clash(
                star,
                "DISTINCT and `*` do not go together",
                "Name the fields that make an event distinct.",
            );
            let hint = "DISTINCT is GROUP BY over all that is selected: leave DISTINCT out, and name the keys in GROUP BY.";
            clash(grouped, "DISTINCT and GROUP BY do not go together", hint);
            clash(aggregate.map(|_| distinct), "DISTINCT and aggregates do not go together", hint);
        } else {
            let hint = "Name the keys and aggregates to select.";
            clash(star.filter(|_| grouped.is_some()), "`*` and GROUP BY do not go together", hint);
            clash(star.filter(|_| aggregate.is_some()), "`*` and aggregates do not go together", hint);
        }
        if let Some(having) = ast.having.as_ref().filter(|_| grouped.is_none()) {
            clash(Some(having.span), "HAVING needs GROUP BY", "Use WHERE to choose among events.");
        }
        let within = |node: Option<&Node>| node.and_then(Node::aggregate).map(|found| found.span);
        let hint = "WHERE looks at single events; use HAVING to choose among groups.";
        clash(within(ast.filter.as_ref()), "an aggregate cannot stand in WHERE", hint);
        for key in ast.group_by.iter().flat_map(|group_by| &group_by.keys) {
            clash(
                within(Some(key)),
                "an aggregate cannot stand in GROUP BY",
                "Group by fields of the events.",
            );
        }
    }

    /// Gathers the items into columns: the same expression twice is one column.
    fn collect_columns(&mut self, ast: &'a ast::Statement) {
        let mut aliases: HashMap<String, &Name> = HashMap::new();
        let bullet = self.dialect == Dialect::Bullet;
        for item in &ast.items {
            let Item::Expr { node, alias } = item else { continue };
            let node = node.bare();
            let text = self.text_of(node);
            let name: Box<str> =
                alias.as_ref().map_or_else(|| text.as_str().into(), |alias| alias.text.clone());
            let span = alias.as_ref().map_or(node.span, |alias| alias.span);
            if bullet {
                // One expression has one name in Bullet, and an alias takes the place of the text.
                if let (Some(alias), Some(other)) = (alias, aliases.get(&text))
                    && alias.text != other.text
                {
                    let message = format!("`{}` cannot have several aliases", short(&text));
                    self.faults.push(Fault::at(alias.span, message));
                    continue;
                }
                if let Some(alias) = alias {
                    aliases.insert(text.clone(), alias);
                }
                if let Some(&place) = self.columns_by_text.get(&text) {
                    if alias.is_some() {
                        self.columns[place].name = name;
                        self.columns[place].span = span;
                    }
                    self.dropped.push((place, node));
                    continue;
                }
            } else if let Some(place) =
                self.columns.iter().position(|column| column.name == name && column.text == text)
            {
                self.dropped.push((place, node));
                continue;
            }
            self.columns_by_text.entry(text.clone()).or_insert(self.columns.len());
            self.columns.push(Column { node, name, text, span });
        }
        for (place, column) in self.columns.iter().enumerate() {
            self.values.push(ColumnValue::Not);
            if self.columns_by_name.insert(column.name.clone(), place).is_some() {
                let message = format!("two columns are named `{}`", short(&column.name));
                self.faults
                    .push(Fault::at(column.span, message).hint("Give one of them another name with AS."));
            }
            self.columns_by_folded_name
                .entry(column.name.to_lowercase())
                .and_modify(|column| *column = None)
                .or_insert(Some(place));
        }
    }

    /// Items left out because their text was there before must also mean the same: a type hint is not in the text.
    fn check_dropped(&mut self) {
        for (place, node) in std::mem::take(&mut self.dropped) {
            let faults = self.faults.len();
            let typed = self.lower(node, self.item_scope());
            self.faults.truncate(faults);
            if let (Some(typed), Some(kept)) = (typed, self.column_value(place))
                && typed != kept
            {
                let message = format!("two columns are named `{}`", short(&self.columns[place].text));
                self.faults
                    .push(Fault::at(node.span, message).hint("Give one of them another name with AS."));
            }
        }
    }

    fn window(&mut self, ast: &ast::Statement, is_group: bool) -> Window {
        let Some(windowing) = &ast.window else { return Window::None };
        let fault = match windowing.window {
            Window::Time { take: Take::All, .. } if !is_group => {
                Some("a window over ALL needs an aggregation: a RAW query cannot keep all events")
            }
            Window::Records { .. } if is_group && self.dialect == Dialect::Bullet => {
                Some("a window counted in records is for queries without aggregation")
            }
            _ => None,
        };
        if let Some(message) = fault {
            self.faults.push(Fault::at(windowing.span, message).hint("Write `TUMBLING(n, TIME)`."));
        }
        windowing.window.clone()
    }

    // ---- kinds of queries

    fn raw(&mut self, ast: &'a ast::Statement) -> (Body, Vec<SortKey>) {
        let has_star = ast.items.iter().any(|item| matches!(item, Item::Star(_)));
        let star = has_star.then(|| Star { without: self.renamed_fields(ast) });
        let columns = self.output_columns();
        let order_by = self.order_by(ast, Scope::RawOrder);
        (Body::Raw(Raw { star, columns }), order_by)
    }

    /// Bullet's `*, a AS b` renames: the fields whose own name no column has.
    fn renamed_fields(&self, ast: &ast::Statement) -> Vec<Box<str>> {
        if self.dialect != Dialect::Bullet {
            return Vec::new();
        }
        let mut names: BTreeSet<&str> = BTreeSet::new();
        let mut renamed = Vec::new();
        for item in &ast.items {
            let Item::Expr { node, alias } = item else { continue };
            let NodeKind::Name(field) = &unhinted(node).kind else { continue };
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

    fn group(&mut self, ast: &'a ast::Statement) -> (Body, Vec<SortKey>) {
        let (nodes, clause): (Vec<&Node>, _) = match &ast.group_by {
            Some(group_by) => (group_by.keys.iter().collect(), "GROUP BY"),
            None if ast.distinct.is_some() => {
                (self.columns.iter().map(|column| column.node).collect(), "DISTINCT")
            }
            None => (Vec::new(), ""),
        };
        let faults = self.faults.len();
        for node in nodes {
            self.key_of(node, clause);
        }
        self.keys_are_faulty = self.faults.len() > faults;
        let columns = self.output_columns();
        let having =
            ast.having.as_ref().and_then(|having| self.condition(&having.node, Scope::GroupResult, "HAVING"));
        let order_by = self.order_by(ast, Scope::GroupResult);
        let keys = std::mem::take(&mut self.keys);
        let body = Group {
            keys: keys.iter().map(|key| key.expr.clone()).collect(),
            aggregates: self.aggregates.clone(),
            table: None,
            having,
            columns,
        };
        self.keys = keys;
        (Body::Group(body), order_by)
    }

    /// Adds a key, unless it is there.
    fn key_of(&mut self, written: &'a Node, clause: &str) {
        let node = match self.group_item(written, clause) {
            Ok(node) => node,
            Err(fault) => return self.faults.push(fault),
        };
        let Some(typed) = self.lower(node, Scope::Event) else { return };
        if self.dialect == Dialect::Bullet && !typed.ty.may_be_primitive() {
            let message = format!("{clause} needs primitive values, not {}", typed.ty);
            self.faults.push(Fault::at(node.span, message));
        }
        if self.keys.iter().any(|key| key.expr == typed.expr) {
            return;
        }
        if self.keys.len() == KEYS_MAX {
            return self.faults.push(Fault::at(written.span, format!("a query has at most {KEYS_MAX} keys")));
        }
        self.keys.push(typed);
    }

    /// In the native dialect, a whole number or the name of a column stands for what is selected there.
    fn group_item(&self, written: &'a Node, clause: &str) -> Result<&'a Node, Fault> {
        if clause != "GROUP BY" || self.dialect == Dialect::Bullet {
            return Ok(written);
        }
        let column = match &written.kind {
            NodeKind::Literal(literal) => match position(literal) {
                Some(position) => Some(self.column_at(written, position)?),
                None => None,
            },
            NodeKind::Name(name) => self.column_named(name),
            _ => None,
        };
        let Some(column) = column else { return Ok(written) };
        let node = self.columns[column].node;
        match node.aggregate() {
            Some(_) => Err(Fault::at(written.span, "an aggregate cannot stand in GROUP BY")
                .hint("Group by fields of the events.")),
            None => Ok(node),
        }
    }

    /// The column at a position, from 1.
    fn column_at(&self, node: &Node, position: i64) -> Result<usize, Fault> {
        let count = self.columns.len();
        match usize::try_from(position) {
            Ok(place @ 1..) if place <= count => Ok(place - 1),
            _ => {
                Err(Fault::at(node.span, format!("there is no column {position}: columns are 1 to {count}")))
            }
        }
    }

    // ---- parts of all kinds

    fn condition(&mut self, node: &Node, scope: Scope, clause: &str) -> Option<Expr> {
        let typed = self.lower(node, scope)?;
        if self.dialect == Dialect::Bullet && !typed.ty.may_be_primitive() {
            let message = format!("{clause} needs a value that can be BOOLEAN, not {}", typed.ty);
            return self.fault(Fault::at(node.span, message));
        }
        Some(typed.expr)
    }

    fn order_by(&mut self, ast: &'a ast::Statement, scope: Scope) -> Vec<SortKey> {
        let has_star = ast.items.iter().any(|item| matches!(item, Item::Star(_)));
        let mut keys = Vec::new();
        for order in &ast.order_by {
            let node = &order.node;
            let place = match &node.kind {
                NodeKind::Literal(literal) if self.dialect.numbers_are_positions() => position(literal),
                _ => None,
            };
            let typed = match place {
                Some(_) if has_star => self.fault(
                    Fault::at(node.span, "a position cannot be told behind `*`").hint("Name the field."),
                ),
                Some(place) => match self.column_at(node, place) {
                    Ok(column) => self.column_value(column),
                    Err(fault) => self.fault(fault),
                },
                None => self.lower(node, scope),
            };
            let Some(typed) = typed else { continue };
            if self.dialect == Dialect::Bullet && !typed.ty.may_be_primitive() {
                let message = format!("ORDER BY needs primitive values, not {}", typed.ty);
                self.faults.push(Fault::at(node.span, message));
            }
            keys.push(SortKey { expr: typed.expr, descending: order.descending });
        }
        keys
    }

    fn item_scope(&self) -> Scope {
        if self.is_group { Scope::GroupItem } else { Scope::Event }
    }

    /// The text of an expression, which names its column.
    fn text_of(&self, node: &Node) -> String {
        column_name(node, (self.dialect == Dialect::Bullet).then_some(self.options.now))
    }

    fn output_columns(&mut self) -> Vec<OutputColumn> {
        let mut columns = Vec::with_capacity(self.columns.len());
        for place in 0..self.columns.len() {
            if let Some(typed) = self.column_value(place) {
                columns.push(OutputColumn { name: self.columns[place].name.clone(), expr: typed.expr });
            }
        }
        columns
    }

    /// A column's value; `None` if it has a fault, or if it is underway: it would hold itself.
    fn column_value(&mut self, place: usize) -> Option<Typed> {
        /// Columns that name columns that name columns.
        const NAMING_MAX: usize = 16;
        match &self.values[place] {
            ColumnValue::Done(typed) => return typed.clone(),
            ColumnValue::Underway => return None,
            ColumnValue::Not if self.naming == NAMING_MAX => return None,
            ColumnValue::Not => {}
        }
        self.values[place] = ColumnValue::Underway;
        self.naming += 1;
        let typed = self.lower(self.columns[place].node, self.item_scope());
        self.naming -= 1;
        self.values[place] = ColumnValue::Done(typed.clone());
        typed
    }
}

fn unhinted(node: &Node) -> &Node {
    match &node.bare().kind {
        NodeKind::Hint(base, _) => base.bare(),
        _ => node.bare(),
    }
}

fn item_nodes(ast: &ast::Statement) -> impl Iterator<Item = &Node> {
    ast.items.iter().filter_map(|item| match item {
        Item::Expr { node, .. } => Some(node),
        Item::Star(_) => None,
    })
}

fn has_aggregates(ast: &ast::Statement) -> bool {
    let order_by = ast.order_by.iter().map(|order| &order.node);
    item_nodes(ast).chain(order_by).any(|node| node.aggregate().is_some())
}

fn position(literal: &Literal) -> Option<i64> {
    match literal {
        Literal::Integer(value) => Some(i64::from(*value)),
        Literal::Long(value) => Some(*value),
        _ => None,
    }
}
