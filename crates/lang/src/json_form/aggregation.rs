//! Aggregations of Bullet's JSON query form.
//!
//! ```text
//! RAW, LIMIT       size: how many events
//! GROUP, DISTINCT  fields: the keys; attributes.operations: [{"type": COUNT|SUM|MIN|MAX|AVG, "field", "newName"}, …]
//! COUNT DISTINCT   fields: the counted fields; attributes.newName
//! DISTRIBUTION     fields: one field; size: the most points, the first of them; attributes.type: QUANTILE|PMF|CDF,
//!                  and numberOfPoints, or points, or start, end and increment
//! TOP K            fields: the counted fields; size: k; attributes.threshold, attributes.newName
//! ```
//!
//! A result without a new name has Bullet's name from the time when Bullet read this form: `COUNT`, `SUM_field`,
//! `COUNT DISTINCT`.

use super::{
    Reader,
    read::{Node, Object},
};
use crate::{
    lexer::short,
    plan::{
        Aggregate, AggregateFunction, DistributionPoints, Expr, Group, OutputColumn, TableAggregate,
        TableFunction,
    },
    source::Fault,
};

/// The most keys, operations or points.
const PARTS_MAX: usize = 256;

/// The operation on events: groups, or (`None`) records.
pub(super) struct Aggregation {
    pub(super) group: Option<Group>,
    pub(super) limit: Option<u64>,
}

impl Aggregation {
    pub(super) fn raw() -> Aggregation {
        Aggregation { group: None, limit: None }
    }
}

impl Reader<'_> {
    pub(super) fn aggregation(&mut self, node: &Node<'_>) -> Option<Aggregation> {
        let object = self.record_fault(node.object("an aggregation"))?;
        self.check_keys(&object, &["type", "size", "fields", "attributes"]);
        let kind = match object.get("type") {
            Some(kind) => self.record_fault(kind.text("an aggregation's type"))?.to_ascii_uppercase(),
            None => "RAW".to_owned(),
        };
        let limit = object.get("size").and_then(|size| self.positive(size, "a size"));
        let fields = object.get("fields").map(|fields| self.fields(fields)).unwrap_or_default();
        if fields.len() > PARTS_MAX {
            self.faults
                .push(Fault::at(node.span(), format!("an aggregation has at most {PARTS_MAX} fields")));
            return None;
        }
        let nothing = Node::root("{}").and_then(|node| node.object("attributes"));
        let attributes = match object.get("attributes") {
            Some(attributes) => self.record_fault(attributes.object("attributes"))?,
            None => self.record_fault(nothing)?,
        };
        let group = match &*kind {
            "RAW" | "LIMIT" => return Some(Aggregation { group: None, limit }),
            "GROUP" | "DISTINCT" => self.grouped(node, fields, &attributes)?,
            "COUNT DISTINCT" => {
                self.check_keys(&attributes, &["newName"]);
                let name = self.new_name(&attributes, "COUNT DISTINCT")?;
                let arguments = self.arguments(node, fields)?;
                let aggregate =
                    Aggregate { function: AggregateFunction::CountDistinct, arguments, filter: None };
                let column = OutputColumn { name, expr: Expr::Slot(0) };
                return Some(Aggregation {
                    group: Some(group(Vec::new(), vec![aggregate], vec![column])),
                    limit: None,
                });
            }
            "DISTRIBUTION" => {
                let group = Some(self.distribution(node, fields, &attributes, limit)?);
                return Some(Aggregation { group, limit: None });
            }
            "TOP K" => {
                self.check_keys(&attributes, &["threshold", "newName"]);
                let name = self.new_name(&attributes, "COUNT")?;
                let threshold =
                    attributes.get("threshold").and_then(|node| self.positive(node, "a threshold"));
                let mut columns: Vec<OutputColumn> = Vec::new();
                for (slot, field) in fields.iter().enumerate() {
                    columns.push(OutputColumn { name: field.name.clone(), expr: Expr::Slot(slot) });
                }
                columns.push(OutputColumn { name, expr: Expr::Slot(fields.len()) });
                let arguments = self.arguments(node, fields)?;
                let function = TableFunction::Top { count: limit.unwrap_or(0), threshold };
                let mut made = group(Vec::new(), Vec::new(), columns);
                made.table = Some(TableAggregate { function, arguments, listed: Vec::new() });
                return Some(Aggregation { group: Some(made), limit: None });
            }
            other => {
                let message = format!("no aggregation `{}`", short(other));
                let hint = "Types are RAW, GROUP, DISTINCT, COUNT DISTINCT, DISTRIBUTION and TOP K.";
                let span = object.get("type").map_or(node.span(), Node::span);
                self.faults.push(Fault::at(span, message).hint(hint));
                return None;
            }
        };
        Some(Aggregation { group: Some(group), limit })
    }

    fn grouped(
        &mut self,
        node: &Node<'_>,
        fields: Vec<OutputColumn>,
        attributes: &Object<'_>,
    ) -> Option<Group> {
        self.check_keys(attributes, &["operations"]);
        let operations = match attributes.get("operations") {
            Some(operations) => self.record_fault(operations.list("`operations`"))?,
            None => Vec::new(),
        };
        if fields.is_empty() && operations.is_empty() {
            let fault = Fault::at(node.span(), "GROUP needs fields to group by, or operations");
            self.faults.push(fault.hint("Set `fields` or `attributes.operations`."));
            return None;
        }
        let mut columns: Vec<OutputColumn> = Vec::new();
        let mut keys = Vec::new();
        for (slot, field) in fields.into_iter().enumerate() {
            columns.push(OutputColumn { name: field.name, expr: Expr::Slot(slot) });
            keys.push(field.expr);
        }
        let mut aggregates: Vec<Aggregate> = Vec::new();
        for operation in operations.iter().take(PARTS_MAX) {
            let Some((name, aggregate)) = self.operation(operation) else { continue };
            if columns.iter().any(|column| column.name == name) {
                let message = format!("two columns are named `{}`", short(&name));
                self.faults.push(
                    Fault::at(operation.span(), message).hint("Set another `newName` for one of them."),
                );
            }
            let place = aggregates.iter().position(|other| *other == aggregate).unwrap_or_else(|| {
                aggregates.push(aggregate);
                aggregates.len() - 1
            });
            columns.push(OutputColumn { name, expr: Expr::Slot(keys.len() + place) });
        }
        Some(group(keys, aggregates, columns))
    }

    fn operation(&mut self, node: &Node<'_>) -> Option<(Box<str>, Aggregate)> {
        let object = self.record_fault(node.object("an operation"))?;
        self.check_keys(&object, &["type", "field", "newName"]);
        let kind = self.record_fault(object.need("type", node))?;
        let name = self.record_fault(kind.text("an operation's type"))?.to_ascii_uppercase();
        let function = match &*name {
            "COUNT" => AggregateFunction::Count,
            "SUM" => AggregateFunction::Sum,
            "MIN" => AggregateFunction::Min,
            "MAX" => AggregateFunction::Max,
            "AVG" => AggregateFunction::Avg,
            other => {
                let message = format!("no operation `{}`", short(other));
                self.faults.push(
                    Fault::at(kind.span(), message).hint("Operations are COUNT, SUM, MIN, MAX and AVG."),
                );
                return None;
            }
        };
        let (arguments, default) = if function == AggregateFunction::Count {
            // Bullet's clients write a field here too: it counts for nothing but the name.
            let field = object.get("field").map(|field| self.record_fault(field.text("a path")));
            let default = match field {
                Some(field) => format!("{name}_{}", field?),
                None => name.clone(),
            };
            (Vec::new(), default)
        } else {
            let field = self.record_fault(object.need("field", node))?;
            let text = self.record_fault(field.text("a path"))?;
            (vec![self.path(field)?], format!("{name}_{text}"))
        };
        let new_name = self.new_name(&object, &default)?;
        Some((new_name, Aggregate { function, arguments, filter: None }))
    }

    fn distribution(
        &mut self,
        node: &Node<'_>,
        fields: Vec<OutputColumn>,
        attributes: &Object<'_>,
        points_max: Option<u64>,
    ) -> Option<Group> {
        self.check_keys(attributes, &["type", "numberOfPoints", "points", "start", "end", "increment"]);
        if fields.len() > 1 {
            self.faults.push(Fault::at(node.span(), "a distribution needs exactly one field"));
        }
        let arguments = self.arguments(node, fields)?;
        let kind = match attributes.get("type") {
            Some(kind) => kind,
            None => {
                let fault = Fault::at(node.span(), "a distribution needs `attributes.type`");
                self.faults.push(fault.hint("Types are QUANTILE, PMF and CDF."));
                return None;
            }
        };
        let name = self.record_fault(kind.text("a distribution's type"))?.to_ascii_uppercase();
        let points = first_points(self.points(node, attributes, name == "QUANTILE")?, points_max);
        let (function, names): (_, &[&str]) = match &*name {
            "QUANTILE" => (TableFunction::Quantile(points), &["Quantile", "Value"]),
            "PMF" => (TableFunction::Frequency(points), &["Range", "Probability", "Count"]),
            "CDF" => (TableFunction::CumulativeFrequency(points), &["Range", "Probability", "Count"]),
            other => {
                let message = format!("no distribution `{}`", short(other));
                self.faults.push(Fault::at(kind.span(), message).hint("Types are QUANTILE, PMF and CDF."));
                return None;
            }
        };
        let columns = names.iter().enumerate();
        let columns =
            columns.map(|(slot, name)| OutputColumn { name: (*name).into(), expr: Expr::Slot(slot) });
        let mut made = group(Vec::new(), Vec::new(), columns.collect());
        made.table = Some(TableAggregate { function, arguments, listed: Vec::new() });
        Some(made)
    }

    fn points(
        &mut self,
        node: &Node<'_>,
        attributes: &Object<'_>,
        are_ranks: bool,
    ) -> Option<DistributionPoints> {
        if let Some(count) = attributes.get("numberOfPoints") {
            return self.positive(count, "`numberOfPoints`").map(DistributionPoints::Linear);
        }
        let list = match attributes.get("points") {
            Some(points) => self.record_fault(points.list("`points`"))?,
            None => Vec::new(),
        };
        let points = if !list.is_empty() {
            let numbers: Option<Vec<f64>> =
                list.iter().map(|point| self.record_fault(point.number("a point"))).collect();
            let mut numbers = numbers?;
            numbers.sort_by(f64::total_cmp);
            numbers.dedup();
            DistributionPoints::Manual(numbers)
        } else {
            let mut bound = |key: &str| {
                let node = self.record_fault(attributes.need(key, node))?;
                self.record_fault(node.number(key))
            };
            let (start, end, increment) = (bound("start")?, bound("end")?, bound("increment")?);
            DistributionPoints::Region { start, end, increment }
        };
        let fault = match &points {
            DistributionPoints::Manual(points) if points.is_empty() => Some("a distribution needs a point"),
            DistributionPoints::Region { start, end, increment } if start >= end || *increment <= 0.0 => {
                Some("a region's start must be below its end, and its increment above 0")
            }
            DistributionPoints::Manual(points)
                if are_ranks && points.iter().any(|point| !(0.0..=1.0).contains(point)) =>
            {
                Some("the points of QUANTILE must be from 0 to 1")
            }
            DistributionPoints::Region { start, end, .. } if are_ranks && (*start < 0.0 || *end > 1.0) => {
                Some("the points of QUANTILE must be from 0 to 1")
            }
            _ => None,
        };
        if let Some(fault) = fault {
            self.faults.push(Fault::at(node.span(), fault));
            return None;
        }
        Some(points)
    }

    fn arguments(&mut self, node: &Node<'_>, fields: Vec<OutputColumn>) -> Option<Vec<Expr>> {
        if fields.is_empty() {
            self.faults.push(Fault::at(node.span(), "this aggregation needs `fields`"));
            return None;
        }
        Some(fields.into_iter().map(|field| field.expr).collect())
    }

    fn new_name(&mut self, object: &Object<'_>, default: &str) -> Option<Box<str>> {
        match object.get("newName") {
            Some(name) => self.record_fault(name.text("`newName`")).map(|name| name.as_ref().into()),
            None => Some(default.into()),
        }
    }
}

/// The first of the points, at most `points_max`; of a number of points that span the data, so many fewer.
fn first_points(points: DistributionPoints, points_max: Option<u64>) -> DistributionPoints {
    let Some(points_max) = points_max else { return points };
    match points {
        DistributionPoints::Linear(count) => DistributionPoints::Linear(count.min(points_max)),
        DistributionPoints::Manual(mut points) => {
            points.truncate(usize::try_from(points_max).unwrap_or(usize::MAX));
            DistributionPoints::Manual(points)
        }
        DistributionPoints::Region { start, end, increment } => {
            // Between the last of them and the next: fractions need not add up.
            let below_next = start + increment * (points_max as f64 - 0.5);
            DistributionPoints::Region { start, end: end.min(below_next), increment }
        }
    }
}

fn group(keys: Vec<Expr>, aggregates: Vec<Aggregate>, columns: Vec<OutputColumn>) -> Group {
    Group { keys, aggregates, table: None, sets: Vec::new(), groupings: Vec::new(), having: None, columns }
}
