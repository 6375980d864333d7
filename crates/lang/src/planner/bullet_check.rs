//! Checks the names and types of a query in Bullet's dialect as Bullet does, inner and outer query together.
//!
//! Names lie in layers: the stream's fields, the columns of each lateral view, those of an aggregation, and the select
//! list's computed columns. A locked layer hides all layers below it. An expression is first looked up by its text, in
//! the layers as they are. Its parts are checked only if no layer has that name. An expression with an error still has a
//! type, so that all errors are reported, also those of the outer query. Each error is reported once a layer. Knows
//! nothing of plans: a query that passes is planned in any case, and a missing value is null then.

mod types;

use std::collections::{HashMap, HashSet};

use swiftwater_event::{Type, did_you_mean};

use super::{check::Ty, columns::shared, table::wrong_points};
use crate::{
    Dialect, ParseOptions,
    ast::{Item, Node, NodeKind, Query, View},
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
    let stream = NameScope { fields, aliases: HashMap::new(), is_locked: false, has_texts: false };
    let mut checker = Checker {
        now: options.now,
        layers: vec![stream],
        fields: HashMap::new(),
        aliases: HashMap::new(),
        noted: HashSet::new(),
        hidden: HiddenBy::Nothing,
        faults: Vec::new(),
    };
    for query in std::iter::once(inner).chain(outer) {
        if let Err(fault) = checker.query(query) {
            return vec![fault];
        }
        checker.hidden = HiddenBy::ByInner;
        checker.noted.clear();
    }
    checker.faults
}

/// One scope of names.
struct NameScope {
    /// `None`: any name is a field of unknown type.
    fields: Option<HashMap<String, Ty>>,
    /// Texts of expressions that have another name.
    aliases: HashMap<String, String>,
    /// True if no layer below can be named.
    is_locked: bool,
    /// True if a name is more than a word, so that it may be the text of an expression.
    has_texts: bool,
}

/// The meaning of a name.
enum ResolvedName {
    /// A column or field of this type.
    Field(Ty),
    /// It may be anything.
    Open,
}

/// The clause that hides the stream's fields, for the error of an unknown name.
#[derive(Clone, Copy)]
enum HiddenBy {
    Nothing,
    ByAggregation,
    ByExplode,
    ByInner,
}

struct Checker {
    now: i64,
    /// The layers from the stream up.
    layers: Vec<NameScope>,
    /// The fields of the next layer.
    fields: HashMap<String, Ty>,
    aliases: HashMap<String, String>,
    noted: HashSet<String>,
    hidden: HiddenBy,
    faults: Vec<Fault>,
}

/// The items of a query, each expression once, with the name of its column.
struct SelectItems<'q> {
    nodes: Vec<(&'q Node, String)>,
    names: HashMap<String, String>,
}

impl<'q> SelectItems<'q> {
    fn of(query: &'q Query, now: i64) -> SelectItems<'q> {
        let mut items = SelectItems { nodes: Vec::new(), names: HashMap::new() };
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
            self.hidden = HiddenBy::ByExplode;
        }
        if let Some(filter) = &query.filter {
            self.condition(filter, "WHERE");
        }
        let items = SelectItems::of(query, self.now);
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
            self.record_fault(Fault::at(view.span, format!("`EXPLODE({text})` needs a {wanted}, not {ty}")));
        }
        for (name, ty) in view.columns.iter().zip(types) {
            self.fields.insert(name.text.to_string(), ty.unwrap_or(Ty::Unknown));
        }
    }

    fn raw(&mut self, query: &Query, items: &SelectItems<'_>) {
        for (node, text) in &items.nodes {
            self.column(node, text, items);
        }
        let is_whole = query.star().is_some() || query.explodes().next().is_some();
        self.push_layer(!is_whole);
        if !is_whole {
            for order in &query.order_by {
                self.carry_order_fields(order.node.bare());
            }
        }
        self.order_by(query);
        self.check_names(items.nodes.iter().map(|(_, text)| items.name(text)));
    }

    /// Fields that only ORDER BY names are carried along; those that a step into another names are not.
    fn carry_order_fields(&mut self, node: &Node) {
        if let Some(ResolvedName::Field(_)) = self.find_text(node) {
            return;
        }
        match &node.kind {
            NodeKind::Name(name) => {
                let ty = match self.find(&name.text, true) {
                    Some(ResolvedName::Field(Ty::Null)) | None => return,
                    Some(ResolvedName::Field(ty)) => ty,
                    Some(ResolvedName::Open) => Ty::Unknown,
                };
                if let Some(fields) = self.layers.last_mut().and_then(|layer| layer.fields.as_mut()) {
                    fields.insert(name.text.to_string(), ty);
                }
            }
            NodeKind::Index(base, _) => self.carry_order_fields(base),
            _ => {
                let mut children = Vec::new();
                node.children(&mut |child| children.push(child));
                children.into_iter().for_each(|child| self.carry_order_fields(child));
            }
        }
    }

    fn distinct(&mut self, query: &Query, items: &SelectItems<'_>) {
        for (node, text) in &items.nodes {
            let ty = self.column(node, text, items);
            self.key(node, &ty, "DISTINCT");
        }
        self.push_layer(true);
        self.hidden = HiddenBy::ByAggregation;
        self.check_names(items.nodes.iter().map(|(_, text)| items.name(text)));
        self.order_by(query);
    }

    fn group(&mut self, query: &Query, items: &SelectItems<'_>) {
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
                // Its arguments are checked even if its text names a column of the inner query.
                node.children(&mut |argument| {
                    self.ty(argument, None);
                });
            }
        }
        self.check_names(names.into_iter());
        self.push_layer(true);
        self.hidden = HiddenBy::ByAggregation;
        if let Some(having) = &query.having {
            self.condition(&having.node, "HAVING");
        }
        self.computed(items);
        self.order_by(query);
    }

    fn table(&mut self, query: &Query, items: &SelectItems<'_>, node: &Node) -> Result<(), Fault> {
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
        self.hidden = HiddenBy::ByAggregation;
        if let Some(fault) = wrong_points(node, function, Dialect::Bullet) {
            return Err(fault);
        }
        self.check_names(names.into_values());
        self.computed(items);
        self.order_by(query);
        Ok(())
    }

    /// Checks the expressions of the select list over the result of the aggregation.
    fn computed(&mut self, items: &SelectItems<'_>) {
        let mut names = Vec::new();
        for (node, text) in &items.nodes {
            if let Some(ResolvedName::Field(_)) = self.find(text, false) {
                continue;
            }
            self.column(node, text, items);
            names.push(items.name(text));
        }
        self.push_layer(false);
        self.check_names(names.into_iter());
    }

    // ---- parts of all kinds

    fn column(&mut self, node: &Node, text: &str, items: &SelectItems<'_>) -> Ty {
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
            self.record_fault(Fault::at(
                node.span,
                format!("{clause} needs primitive values: `{text}` is {ty}"),
            ));
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
            let fault = Fault::whole(message).hint("Rename all but one of them with AS.");
            self.faults.push(fault);
        }
    }

    fn push_layer(&mut self, is_locked: bool) {
        let (fields, aliases) = (std::mem::take(&mut self.fields), std::mem::take(&mut self.aliases));
        let is_word = |name: &String| name.chars().all(|c| c.is_alphanumeric() || c == '_');
        let has_texts = !fields.keys().chain(aliases.keys()).all(is_word);
        self.layers.push(NameScope { fields: Some(fields), aliases, is_locked, has_texts });
        self.noted.clear();
    }

    // ---- names

    /// Resolves a name; `None`: it is unknown. `is_carried`: the uppermost layer is skipped, and the flag says if it is
    /// locked.
    fn find(&self, name: &str, is_carried: bool) -> Option<ResolvedName> {
        for (above, layer) in self.layers.iter().rev().enumerate() {
            let is_skipped = is_carried && above == 0;
            let Some(fields) = &layer.fields else { return Some(ResolvedName::Open) };
            if !is_skipped {
                // A field whose type is NULL cannot be found by its own name.
                if let Some(ty) = fields.get(name).filter(|ty| **ty != Ty::Null) {
                    return Some(ResolvedName::Field(ty.clone()));
                }
                if let Some(alias) = layer.aliases.get(name) {
                    return Some(ResolvedName::Field(fields.get(alias).cloned().unwrap_or(Ty::Null)));
                }
            }
            if layer.is_locked && !is_skipped {
                return None;
            }
        }
        None
    }

    /// Resolves an expression by its text.
    fn find_text(&self, node: &Node) -> Option<ResolvedName> {
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

    /// Records a fault of a name or type, once for each message and scope.
    fn record_fault(&mut self, fault: Fault) {
        if self.noted.insert(fault.message.clone()) {
            self.faults.push(fault);
        }
    }

    fn unknown(&mut self, node: &Node, name: &str, is_quoted: bool) {
        let shown = short(name);
        let (message, hint) = match self.hidden {
            HiddenBy::Nothing => (format!("there is no field `{shown}`"), None),
            HiddenBy::ByInner => (format!("the inner query has no column `{shown}`"), None),
            HiddenBy::ByAggregation => (
                format!("`{shown}` is neither a key of the groups nor within an aggregate"),
                Some("Add it to GROUP BY, or use it in an aggregate such as MIN(…) or MAX(…)."),
            ),
            HiddenBy::ByExplode => (
                format!("EXPLODE returns no column `{shown}`"),
                Some("Only its columns can be named; LATERAL VIEW EXPLODE also returns the event's fields."),
            ),
        };
        let fault = Fault::at(node.span, message);
        let names = self.layers.iter().flat_map(|layer| &layer.fields).flat_map(HashMap::keys);
        self.record_fault(match (hint, did_you_mean(name, names.map(String::as_str))) {
            (Some(hint), _) => fault.hint(hint),
            (None, Some(near)) => fault.hint(format!("Did you mean `{near}`?")),
            (None, None) if is_quoted => fault.hint("Write text in single quotes."),
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
