//! Parses Bullet's older query form, a JSON object, into the same plan as BQL.
//!
//! ```text
//! {"filters": [F, …], "projection": {"fields": {"path": "name", …}},
//!  "aggregation": {"type", "size", "fields": {"path": "name", …}, "attributes": {…}},
//!  "postAggregations": [P, …], "window": {"emit": {"type", "every"}, "include": {"type", "first"}}, "duration": ms}
//! ```
//!
//! Every part is optional: `{}` requests all events unchanged. AND joins the filters. Paths use dots everywhere
//! (`map.key`, `list.0.key`). A part that is all digits is a list position or a key, depending on the event, unless the
//! schema decides. The dialect's rules about names and nulls apply here as in BQL. [`filter`] describes how texts are
//! compared with values.

mod aggregation;
mod filter;
mod post;
mod read;

use std::sync::Arc;

use swiftwater_event::{Path, Step, Type};

use self::{
    aggregation::Aggregation,
    filter::call,
    read::{Node, Object},
};
use crate::{
    ParseOptions,
    plan::{
        Body, Expr, Function, OutputColumn, Query, Raw, Star, Statement, Window, WindowClock, WindowContents,
    },
    source::Fault,
};

/// The deepest nesting of filters and computations.
const DEPTH_MAX: usize = 64;
/// The most parts of a path that may be a place in a list as well as a key; what they may mean doubles with each.
const OPEN_PARTS_MAX: usize = 3;

/// Faults, as they are found.
type Faults = Vec<Fault>;

pub(crate) fn parse(text: &str, options: &ParseOptions<'_>) -> Result<Statement, Vec<Fault>> {
    let mut reader = Reader { options, faults: Vec::new() };
    let query =
        Node::root(text).and_then(|root| root.object("a query")).map(|root| reader.query(text, &root));
    match query {
        Ok(Some(query)) if reader.faults.is_empty() => Ok(Statement { explain: None, query }),
        Ok(_) => Err(reader.faults),
        Err(fault) => Err(vec![fault]),
    }
}

/// State shared by all parts while a query is read.
struct Reader<'o> {
    options: &'o ParseOptions<'o>,
    faults: Faults,
}

impl Reader<'_> {
    fn query(&mut self, text: &str, root: &Object<'_>) -> Option<Query> {
        const KEYS: [&str; 6] =
            ["filters", "projection", "aggregation", "postAggregations", "window", "duration"];
        self.check_keys(root, &KEYS);
        let filter = root.get("filters").and_then(|filters| self.filters(filters));
        let projection = root.get("projection").and_then(|projection| self.projection(projection));
        let aggregation = match root.get("aggregation") {
            Some(aggregation) => self.aggregation(aggregation)?,
            None => Aggregation::raw(),
        };
        let limit = aggregation.limit;
        let mut body = match (aggregation.group, projection) {
            (Some(group), None) => Body::Group(group),
            (Some(_), Some(_)) => {
                let span = root.get("projection").map(|node| node.span());
                let fault = "a projection is allowed with RAW only: an aggregation has its own fields";
                self.faults.extend(span.map(|span| Fault::at(span, fault)));
                return None;
            }
            (None, None) => Body::Raw(Raw { star: Some(Star::default()), columns: Vec::new() }),
            (None, Some(columns)) => Body::Raw(Raw { star: None, columns }),
        };
        let order_by = match root.get("postAggregations") {
            Some(steps) => self.post_aggregations(steps, &mut body),
            None => Vec::new(),
        };
        let is_raw = matches!(body, Body::Raw(_));
        let window = match root.get("window") {
            Some(window) => self.window(window, is_raw),
            None => Window::None,
        };
        let duration_ms = root.get("duration").and_then(|duration| self.positive(duration, "a duration"));
        Some(Query {
            text: Arc::from(text),
            printed: Arc::from(text),
            dialect: self.options.dialect,
            stream: None,
            duration_ms,
            sample: None,
            pattern: None,
            views: Vec::new(),
            filter,
            body,
            order_by,
            limit,
            window,
            outer: None,
        })
    }

    /// A name that the form does not have is a fault: a misspelt part would silently ask for something else.
    fn check_keys(&mut self, object: &Object<'_>, known: &[&str]) {
        for (key, node) in object.entries() {
            if !known.contains(&&**key) {
                let fault =
                    Fault::at(node.span(), format!("unknown member `{}` of the query's JSON", short(key)));
                let names = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
                self.faults.push(fault.hint(format!("Members are {names}.")));
            }
        }
    }

    fn record_fault<T>(&mut self, result: Result<T, Fault>) -> Option<T> {
        result.map_err(|fault| self.faults.push(fault)).ok()
    }

    fn positive(&mut self, node: &Node<'_>, what: &str) -> Option<u64> {
        self.record_fault(node.positive(what))
    }

    /// A path as the form writes it, with the type that it is wanted as.
    fn path(&mut self, node: &Node<'_>) -> Option<Expr> {
        let text = self.record_fault(node.text("a path"))?;
        self.record_fault(self.path_of(&text, node))
    }

    fn path_of(&self, text: &str, node: &Node<'_>) -> Result<Expr, Fault> {
        let mut parts = text.split('.');
        let field = parts.next().unwrap_or_default();
        if field.is_empty() {
            return Err(Fault::at(node.span(), "a path begins with the name of a field"));
        }
        let ty = self.declared(field);
        // All that the path may mean: an event has at most one of them.
        let mut readings = vec![(self.event_path(field), ty)];
        let mut open_parts = 0;
        for part in parts {
            if part.is_empty() {
                return Err(Fault::at(node.span(), "a part of a path cannot be empty"));
            }
            let place = part.parse::<u32>().ok().map(Step::Index);
            if place.is_some() && readings.iter().any(|(_, ty)| *ty == Type::Any) {
                open_parts += 1;
                if open_parts > OPEN_PARTS_MAX {
                    let message = format!("a path has at most {OPEN_PARTS_MAX} parts that are numbers");
                    return Err(Fault::at(node.span(), message));
                }
            }
            let mut longer = Vec::new();
            for (path, ty) in readings {
                let key = || Step::Key(part.into());
                match (ty, &place) {
                    (Type::Map(inner), _) => longer.push((path.then(key()), *inner)),
                    (Type::List(inner), Some(place)) => longer.push((path.then(place.clone()), *inner)),
                    (Type::Any, Some(place)) => {
                        longer.push((path.then(place.clone()), Type::Any));
                        longer.push((path.then(key()), Type::Any));
                    }
                    (_, place) => {
                        longer.push((path.then(place.clone().unwrap_or_else(key)), Type::Any));
                    }
                }
            }
            readings = longer;
        }
        let mut readings: Vec<Expr> =
            readings.into_iter().map(|(path, ty)| Expr::Path { path, ty }).collect();
        match (readings.len(), readings.pop()) {
            (1, Some(path)) => Ok(path),
            (_, last) => {
                readings.extend(last);
                Ok(call(Function::Coalesce, readings))
            }
        }
    }

    fn declared(&self, field: &str) -> Type {
        self.options.schema.and_then(|schema| schema.field(field)).cloned().unwrap_or(Type::Any)
    }

    fn event_path(&self, field: &str) -> Path {
        self.options.schema.map_or_else(|| Path::field(field), |schema| schema.path(field))
    }

    fn field_of_event(&self, field: &str) -> Expr {
        Expr::Path { path: self.event_path(field), ty: self.declared(field) }
    }

    /// `{"path": "name", …}`.
    fn fields(&mut self, node: &Node<'_>) -> Vec<OutputColumn> {
        let Some(fields) = self.record_fault(node.object("fields")) else { return Vec::new() };
        let mut columns: Vec<OutputColumn> = Vec::new();
        for (path, name) in fields.entries() {
            let expr = self.record_fault(self.path_of(path, name));
            let name_text = match name.is_null() {
                true => Some("".into()),
                false => self.record_fault(name.text("the name of a field")),
            };
            let (Some(expr), Some(name_text)) = (expr, name_text) else { continue };
            let name_text = if name_text.is_empty() { path.as_ref() } else { name_text.as_ref() };
            if columns.iter().any(|column| &*column.name == name_text) {
                let message = format!("two fields are named `{}`", short(name_text));
                self.faults.push(Fault::at(name.span(), message));
            }
            columns.push(OutputColumn { name: name_text.into(), expr });
        }
        columns
    }

    fn projection(&mut self, node: &Node<'_>) -> Option<Vec<OutputColumn>> {
        let projection = self.record_fault(node.object("a projection"))?;
        self.check_keys(&projection, &["fields"]);
        let columns = projection.get("fields").map(|fields| self.fields(fields)).unwrap_or_default();
        (!columns.is_empty()).then_some(columns)
    }

    fn window(&mut self, node: &Node<'_>, is_raw: bool) -> Window {
        self.window_of(node, is_raw).map_err(|fault| self.faults.push(fault)).unwrap_or(Window::None)
    }

    fn window_of(&mut self, node: &Node<'_>, is_raw: bool) -> Result<Window, Fault> {
        let window = node.object("a window")?;
        self.check_keys(&window, &["emit", "include"]);
        let emit_node = window.get("emit").ok_or_else(|| {
            Fault::at(node.span(), "a window needs `emit`")
                .hint("Write {\"emit\": {\"type\": \"TIME\", \"every\": 1000}}.")
        })?;
        let emit = emit_node.object("`emit`")?;
        self.check_keys(&emit, &["type", "every"]);
        let unit_node = emit.need("type", emit_node)?;
        let by_time = match &*unit_node.text("a unit")?.to_ascii_uppercase() {
            "TIME" => true,
            "RECORD" => false,
            _ => return Err(Fault::at(unit_node.span(), "a window emits by TIME or RECORD")),
        };
        let every = emit.need("every", emit_node)?.positive("`every`")?;
        let is_additive = match window.get("include") {
            None => false,
            Some(node) => {
                let include = node.object("`include`")?;
                self.check_keys(&include, &["type", "first"]);
                let unit = include.need("type", node)?;
                match (&*unit.text("a unit")?.to_ascii_uppercase(), by_time) {
                    ("ALL", _) => true,
                    ("TIME", true) | ("RECORD", false) => {
                        if let Some(first) = include.get("first")
                            && first.positive("`first`")? != every
                        {
                            return Err(Fault::at(
                                first.span(),
                                "a window must contain exactly the events between two emits",
                            )
                            .hint("Set `first` and `every` to the same number."));
                        }
                        false
                    }
                    _ => {
                        return Err(Fault::at(
                            unit.span(),
                            "a window includes ALL, or has the unit of `emit`",
                        ));
                    }
                }
            }
        };
        match (by_time, is_additive, is_raw) {
            (true, false, _) => Ok(Window::tumbling_ms(every)),
            (true, true, false) => {
                Ok(Window::Time { every_ms: every, take: WindowContents::All, clock: WindowClock::Arrival })
            }
            (true, true, true) => Err(Fault::at(node.span(), "a window over ALL needs an aggregation")),
            (false, false, true) => Ok(Window::tumbling_records(every)),
            (false, true, _) => Err(Fault::at(node.span(), "a window over ALL cannot be counted in records")),
            (false, false, false) => {
                Err(Fault::at(node.span(), "a window counted in records is for queries without aggregation"))
            }
        }
    }
}

use crate::lexer::short;
