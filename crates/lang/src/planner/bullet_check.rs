//! Names and types of a query in Bullet's dialect, checked as Bullet checks them, inner query and outer query in one go.
//!
//! Names lie in layers: the stream's fields, what each lateral view adds, what an aggregation gives, what the select
//! list computes from that. A locked layer hides all below it. An expression is looked for under its text first, in the
//! layers as they are, and looked into only where that names nothing. What has a fault has a type all the same, so that
//! all faults are told, of the outer query too; each is told once a layer. It knows nothing of plans: what it lets
//! through is planned in any case, and what is not there is null then.

mod types;

use std::collections::{HashMap, HashSet};

use swiftwater_event::Type;

use super::{check::Ty, columns::shared, table::wrong_points};
use crate::{
    Dialect, ParseOptions,
    ast::{Item, Node, NodeKind, Query, View},
    keyword::did_you_mean,
    lexer::short,
    names::node_name,
    plan::{Literal, TableFunction},
    source::Fault,
};

/// The faults of a query and of the one it looks at, if that is a query. A fault of a distribution's points is all that
/// is told.
pub(super) fn check(inner: &Query, outer: Option<&Query>, options: &ParseOptions<'_>) -> Vec<Fault> {
    let fields = options.schema.map(|schema| {
        schema.fields().map(|(name, ty)| (name.to_owned(), Ty::from(ty.clone()))).collect::<HashMap<_, _>>()
    });
    let stream = Layer { fields, aliases: HashMap::new(), is_locked: false, has_texts: false };
    let mut checker = Checker {
        now: options.now,
        layers: vec![stream],
        fields: HashMap::new(),
        aliases: HashMap::new(),
        noted: HashSet::new(),
        hidden: Hidden::Nothing,
        faults: Vec::new(),
    };
    for query in std::iter::once(inner).chain(outer) {
        if let Err(fault) = checker.query(query) {
            return vec![fault];
        }
        checker.hidden = Hidden::ByInner;
        checker.noted.clear();
    }
    checker.faults
}

/// One layer of names.
struct Layer {
    /// `None`: any name is a field of unknown type.
    fields: Option<HashMap<String, Ty>>,
    /// Texts of expressions that have another name.
    aliases: HashMap<String, String>,
    /// Nothing below can be named.
    is_locked: bool,
    /// Some name is more than a word, so that it may be the text of an expression.
    has_texts: bool,
}

/// What a name is.
enum Found {
    /// A column or field of this type.
    Field(Ty),
    /// It may be anything.
    Open,
}

/// What hides the stream's fields, to tell with a name that is not found.
#[derive(Clone, Copy)]
enum Hidden {
    Nothing,
    ByAggregation,
    ByExplode,
    ByInner,
}

struct Checker {
    now: i64,
    /// From the stream up.
    layers: Vec<Layer>,
    /// What the next layer will hold.
    fields: HashMap<String, Ty>,
    aliases: HashMap<String, String>,
    noted: HashSet<String>,
    hidden: Hidden,
    faults: Vec<Fault>,
}

/// The items of a query, each expression once, with the name of its column.
struct Items<'q> {
    nodes: Vec<(&'q Node, String)>,
    names: HashMap<String, String>,
}

impl<'q> Items<'q> {
    fn of(query: &'q Query, now: i64) -> Items<'q> {
        let mut items = Items { nodes: Vec::new(), names: HashMap::new() };
        for item in &query.items {
            let Item::Expr { node, alias } = item else { continue };
            let node = node.bare();
            let text = node_name(node, Some(now));
            if let Some(alias) = alias.as_ref().filter(|alias| *alias.text != *text) {
                items.names.insert(text.clone(), alias.text.to_string());
            }
            let is_new = items.nodes.iter().all(|(_, other)| *other != text);
            if is_new && !matches!(node.kind, NodeKind::Table { .. }) {
                items.nodes.push((node, text));
            }
        }
        items
    }

    /// The alias of what has this text, else the text.
    fn name(&self, text: &str) -> String {
        self.names.get(text).map_or_else(|| text.to_owned(), Clone::clone)
    }
}

impl Checker {
    /// `Err`: a fault beside which no other is told.
    fn query(&mut self, query: &Query) -> Result<(), Fault> {
        for view in &query.views {
            self.view(view);
            self.push_layer(false);
        }
        if query.views.is_empty()
            && let Some(view) = query.explodes().next()
        {
            self.view(view);
            self.push_layer(true);
            self.hidden = Hidden::ByExplode;
        }
        if let Some(filter) = &query.filter {
            self.condition(filter, "WHERE");
        }
        let items = Items::of(query, self.now);
        let table =
            query.item_nodes().map(Node::bare).find(|node| matches!(node.kind, NodeKind::Table { .. }));
        if query.distinct.is_some() {
            self.distinct(query, &items);
        } else if let Some(node) = table {
            self.table(query, &items, node)?;
        } else if query.group_by.is_some() || super::has_aggregates(query) {
            self.group(query, &items);
        } else {
            self.raw(query, &items);
        }
        Ok(())
    }

    fn view(&mut self, view: &View) {
        let ty = self.ty(&view.argument, None);
        let (wanted, types) = match &*view.columns {
            [_] => ("list", vec![ty.element_of_list()]),
            _ => ("map", vec![Some(Ty::Known(Type::STRING)), ty.value_of_map()]),
        };
        if types.contains(&None) {
            let text = short(&node_name(&view.argument, Some(self.now)));
            self.note(Fault::at(view.span, format!("`EXPLODE({text})` needs a {wanted}, not {ty}")));
        }
        for (name, ty) in view.columns.iter().zip(types) {
            self.fields.insert(name.text.to_string(), ty.unwrap_or(Ty::Unknown));
        }
    }

    fn raw(&mut self, query: &Query, items: &Items<'_>) {
        for (node, text) in &items.nodes {
            self.column(node, text, items);
        }
        let is_whole = query.star().is_some() || query.explodes().next().is_some();
        self.push_layer(!is_whole);
        if !is_whole {
            for order in &query.order_by {
                self.carry(order.node.bare());
            }
        }
        self.order_by(query);
        self.check_names(items.nodes.iter().map(|(_, text)| items.name(text)));
    }

    /// Fields that only ORDER BY names are carried along; those that a step into another names are not.
    fn carry(&mut self, node: &Node) {
        if let Some(Found::Field(_)) = self.find_text(node) {
            return;
        }
        match &node.kind {
            NodeKind::Name(name) => {
                let ty = match self.find(&name.text, true) {
                    Some(Found::Field(Ty::Null)) | None => return,
                    Some(Found::Field(ty)) => ty,
                    Some(Found::Open) => Ty::Unknown,
                };
                if let Some(fields) = self.layers.last_mut().and_then(|layer| layer.fields.as_mut()) {
                    fields.insert(name.text.to_string(), ty);
                }
            }
            NodeKind::Index(base, _) => self.carry(base),
            _ => {
                let mut children = Vec::new();
                node.children(&mut |child| children.push(child));
                children.into_iter().for_each(|child| self.carry(child));
            }
        }
    }

    fn distinct(&mut self, query: &Query, items: &Items<'_>) {
        for (node, text) in &items.nodes {
            let ty = self.column(node, text, items);
            self.key(node, &ty, "DISTINCT");
        }
        self.push_layer(true);
        self.hidden = Hidden::ByAggregation;
        self.check_names(items.nodes.iter().map(|(_, text)| items.name(text)));
        self.order_by(query);
    }

    fn group(&mut self, query: &Query, items: &Items<'_>) {
        let mut texts = HashSet::new();
        let mut names = Vec::new();
        for key in query.group_by.iter().flat_map(|group_by| &group_by.keys) {
            let key = key.bare();
            let text = node_name(key, Some(self.now));
            if texts.insert(text.clone()) {
                let ty = self.column(key, &text, items);
                self.key(key, &ty, "GROUP BY");
                names.push(items.name(&text));
            }
        }
        let mut aggregates = Vec::new();
        let having = query.having.iter().map(|having| &having.node);
        let order_by = query.order_by.iter().map(|order| &order.node);
        for node in query.item_nodes().chain(having).chain(order_by) {
            collect_aggregates(node, &mut aggregates);
        }
        let mut texts = HashSet::new();
        for node in aggregates {
            let text = node_name(node, Some(self.now));
            if texts.insert(text.clone()) {
                self.column(node, &text, items);
                names.push(items.name(&text));
                // What it is over is looked at even where its text names a column of the inner query.
                node.children(&mut |argument| {
                    self.ty(argument, None);
                });
            }
        }
        self.check_names(names.into_iter());
        self.push_layer(true);
        self.hidden = Hidden::ByAggregation;
        if let Some(having) = &query.having {
            self.condition(&having.node, "HAVING");
        }
        self.computed(items);
        self.order_by(query);
    }

    fn table(&mut self, query: &Query, items: &Items<'_>, node: &Node) -> Result<(), Fault> {
        let NodeKind::Table { function, arguments } = &node.kind else { return Ok(()) };
        let is_top = matches!(function, TableFunction::Top { .. });
        let mut types = Vec::new();
        let mut names: HashMap<String, String> = HashMap::new();
        for argument in arguments {
            let ty = self.ty(argument, None);
            let text = node_name(argument, Some(self.now));
            if is_top {
                let name = items.name(&text);
                self.name_column(&text, &name, ty.clone());
                names.insert(text, name);
            }
            types.push(ty);
        }
        let fits = match is_top {
            true => types.iter().all(Ty::may_be_primitive),
            false => types.iter().all(Ty::may_be_numeric_or_boolean),
        };
        if !fits && !types.contains(&Ty::Unknown) {
            self.needs(node, if is_top { "primitive values" } else { "a number or BOOLEAN" }, &types);
        }
        let fixed: &[(&str, Type)] = match function {
            TableFunction::Quantile(_) => &[("Quantile", Type::DOUBLE), ("Value", Type::DOUBLE)],
            TableFunction::Frequency(_) | TableFunction::CumulativeFrequency(_) => {
                &[("Range", Type::STRING), ("Probability", Type::DOUBLE), ("Count", Type::DOUBLE)]
            }
            TableFunction::Top { .. } => &[("Count", Type::LONG)],
        };
        for (name, ty) in fixed {
            let alias = items.names.get(&node_name(node, Some(self.now))).filter(|_| is_top);
            let name = alias.map_or_else(|| (*name).to_owned(), Clone::clone);
            self.fields.insert(name, Ty::Known(ty.clone()));
        }
        self.push_layer(true);
        self.hidden = Hidden::ByAggregation;
        if let Some(fault) = wrong_points(node, function, Dialect::Bullet) {
            return Err(fault);
        }
        self.check_names(names.into_values());
        self.computed(items);
        self.order_by(query);
        Ok(())
    }

    /// What the select list computes from what the aggregation gives.
    fn computed(&mut self, items: &Items<'_>) {
        let mut names = Vec::new();
        for (node, text) in &items.nodes {
            if let Some(Found::Field(_)) = self.find(text, false) {
                continue;
            }
            self.column(node, text, items);
            names.push(items.name(text));
        }
        self.push_layer(false);
        self.check_names(names.into_iter());
    }

    // ---- parts of all kinds

    fn column(&mut self, node: &Node, text: &str, items: &Items<'_>) -> Ty {
        let ty = self.ty(node, None);
        self.name_column(text, &items.name(text), ty.clone());
        ty
    }

    fn name_column(&mut self, text: &str, name: &str, ty: Ty) {
        if text != name {
            self.aliases.insert(text.to_owned(), name.to_owned());
        }
        self.fields.insert(name.to_owned(), ty);
    }

    fn key(&mut self, node: &Node, ty: &Ty, clause: &str) {
        if !ty.may_be_primitive() {
            let text = short(&node_name(node, Some(self.now)));
            self.note(Fault::at(node.span, format!("{clause} needs primitive values: `{text}` is {ty}")));
        }
    }

    fn condition(&mut self, node: &Node, clause: &str) {
        let node = node.bare();
        let ty = self.ty(node, None);
        if !ty.may_be_primitive() {
            let message = format!("{clause} needs a value that can be BOOLEAN, not {ty}");
            self.faults.push(Fault::at(node.span, message));
        }
    }

    fn order_by(&mut self, query: &Query) {
        let mut seen = HashSet::new();
        for order in &query.order_by {
            let node = order.node.bare();
            if !seen.insert((node_name(node, Some(self.now)), order.descending)) {
                continue;
            }
            let ty = self.ty(node, None);
            if !ty.may_be_primitive() {
                let message = format!("ORDER BY needs primitive values, not {ty}");
                self.faults.push(Fault::at(node.span, message));
            }
        }
    }

    fn check_names(&mut self, names: impl Iterator<Item = String>) {
        let mut names = shared(names);
        names.sort();
        if !names.is_empty() {
            let message = format!("several columns have the same name: {}", short(&names.join(", ")));
            let fault = Fault::whole(message).hint("Give all but one of them another name with AS.");
            self.faults.push(fault);
        }
    }

    fn push_layer(&mut self, is_locked: bool) {
        let (fields, aliases) = (std::mem::take(&mut self.fields), std::mem::take(&mut self.aliases));
        let is_word = |name: &String| name.chars().all(|c| c.is_alphanumeric() || c == '_');
        let has_texts = !fields.keys().chain(aliases.keys()).all(is_word);
        self.layers.push(Layer { fields: Some(fields), aliases, is_locked, has_texts });
        self.noted.clear();
    }

    // ---- names

    /// What a name is; `None`: nothing. `is_carried`: not by the uppermost layer, and whether that is locked or not.
    fn find(&self, name: &str, is_carried: bool) -> Option<Found> {
        for (above, layer) in self.layers.iter().rev().enumerate() {
            let is_skipped = is_carried && above == 0;
            let Some(fields) = &layer.fields else { return Some(Found::Open) };
            if !is_skipped {
                // What is NULL by its type is nothing under its own name.
                if let Some(ty) = fields.get(name).filter(|ty| **ty != Ty::Null) {
                    return Some(Found::Field(ty.clone()));
                }
                if let Some(alias) = layer.aliases.get(name) {
                    return Some(Found::Field(fields.get(alias).cloned().unwrap_or(Ty::Null)));
                }
            }
            if layer.is_locked && !is_skipped {
                return None;
            }
        }
        None
    }

    /// What an expression is by its text.
    fn find_text(&self, node: &Node) -> Option<Found> {
        if let NodeKind::Name(name) = &node.kind {
            return self.find(&name.text, false);
        }
        let is_text = self.layers.iter().any(|layer| layer.has_texts)
            || matches!(node.kind, NodeKind::Literal(Literal::Integer(_)));
        if !is_text || self.layers.len() == 1 {
            return None;
        }
        self.find(&node_name(node, Some(self.now)), false)
    }

    // ---- faults

    /// Notes a fault of a name or type, once for each message and layer.
    fn note(&mut self, fault: Fault) {
        if self.noted.insert(fault.message.clone()) {
            self.faults.push(fault);
        }
    }

    fn unknown(&mut self, node: &Node, name: &str, is_quoted: bool) {
        let shown = short(name);
        let (message, hint) = match self.hidden {
            Hidden::Nothing => (format!("there is no field `{shown}`"), None),
            Hidden::ByInner => (format!("the inner query has no column `{shown}`"), None),
            Hidden::ByAggregation => (
                format!("`{shown}` is neither a key of the groups nor within an aggregate"),
                Some("Name it in GROUP BY, or take it within an aggregate like MIN(…) or MAX(…)."),
            ),
            Hidden::ByExplode => (
                format!("EXPLODE gives no column `{shown}`"),
                Some("Only its columns can be named; LATERAL VIEW EXPLODE keeps the event's fields."),
            ),
        };
        let fault = Fault::at(node.span, message);
        let names = self.layers.iter().flat_map(|layer| &layer.fields).flat_map(HashMap::keys);
        self.note(match (hint, did_you_mean(name, names.map(String::as_str))) {
            (Some(hint), _) => fault.hint(hint),
            (None, Some(near)) => fault.hint(format!("Did you mean `{near}`?")),
            (None, None) if is_quoted => fault.hint("Text goes into single quotes."),
            (None, None) => fault,
        });
    }
}

fn collect_aggregates<'n>(node: &'n Node, found: &mut Vec<&'n Node>) {
    if let NodeKind::Aggregate { .. } = node.kind {
        found.push(node);
        return;
    }
    if let NodeKind::Index(base, _) = &node.kind {
        return collect_aggregates(base, found);
    }
    node.children(&mut |child| collect_aggregates(child, found));
}
