//! Checks a whole CREATE STREAM declaration and reports all its errors.
//!
//! Examples: duplicate names and names that lead nowhere, conditions and defaults of a wrong type, options that exclude
//! each other.

use std::collections::HashSet;

use swiftwater_event::{Primitive, Type, did_you_mean};

use super::stream::DeclaredParts;
use crate::{
    Dialect, ParseOptions, Schema,
    ast::{Builtin, Name, Node, NodeKind},
    ddl::{
        Ack, COLUMNS_MAX, Check, ColumnDef, DefaultValue, PartitionBy, StreamOption, StreamOptions, Watermark,
    },
    lexer::short,
    plan::{Expr, Literal},
    planner,
    source::{Fault, Span},
};

/// The parsed text between the parentheses of CREATE STREAM.
#[derive(Default)]
pub(super) struct Declaration {
    pub(super) columns: Vec<DeclaredColumn>,
    pub(super) checks: Vec<DeclaredCheck>,
    pub(super) watermark: Option<DeclaredWatermark>,
}

/// A column with its places.
pub(super) struct DeclaredColumn {
    /// The definition without its default and its conditions.
    pub(super) def: ColumnDef,
    pub(super) name: Name,
    pub(super) not_null: Option<Span>,
    pub(super) default: Option<DeclaredDefault>,
    pub(super) checks: Vec<DeclaredCheck>,
}

/// A condition with its syntax.
pub(super) struct DeclaredCheck {
    pub(super) check: Check,
    pub(super) node: Node,
}

/// A default with its syntax, but for NOW.
pub(super) struct DeclaredDefault {
    pub(super) value: DefaultValue,
    pub(super) node: Option<Node>,
    pub(super) span: Span,
}

/// A watermark with its place.
pub(super) struct DeclaredWatermark {
    pub(super) column: Name,
    pub(super) lateness_ms: u64,
    pub(super) max_ahead_ms: Option<u64>,
    pub(super) idle_after_ms: Option<u64>,
}

impl From<Declaration> for DeclaredParts {
    fn from(declaration: Declaration) -> DeclaredParts {
        let checks = |checks: Vec<DeclaredCheck>| checks.into_iter().map(|check| check.check).collect();
        let column = |column: DeclaredColumn| ColumnDef {
            default: column.default.map(|default| default.value),
            checks: checks(column.checks),
            ..column.def
        };
        DeclaredParts {
            columns: declaration.columns.into_iter().map(column).collect(),
            checks: checks(declaration.checks),
            watermark: declaration.watermark.map(|watermark| Watermark {
                column: watermark.column.text,
                lateness_ms: watermark.lateness_ms,
                max_ahead_ms: watermark.max_ahead_ms,
                idle_after_ms: watermark.idle_after_ms,
            }),
        }
    }
}

impl Declaration {
    /// Records all faults of the whole declaration; changes names of columns to the letter case in which they are
    /// declared.
    pub(super) fn check(
        &mut self,
        options: &StreamOptions,
        option_spans: &[(StreamOption, Span)],
        faults: &mut Vec<Fault>,
    ) {
        self.check_names(faults);
        if !faults.is_empty() {
            return;
        }
        let schema =
            Schema::new(self.columns.iter().map(|column| (column.def.name.clone(), column.def.ty.clone())));
        let of_columns = self.columns.iter().flat_map(|column| &column.checks);
        for check in of_columns.chain(&self.checks) {
            self.check_condition(&check.node, &schema, faults);
        }
        for column in &self.columns {
            check_default(column, faults);
        }
        self.check_watermark(faults);
        self.check_options(options, option_spans, faults);
    }

    fn check_names(&self, faults: &mut Vec<Fault>) {
        if let Some(beyond) = self.columns.get(COLUMNS_MAX) {
            faults.push(Fault::at(beyond.name.span, format!("a stream has at most {COLUMNS_MAX} columns")));
        }
        let mut names = HashSet::new();
        for column in &self.columns {
            // Tables are read by engines that take names in whatever letter case.
            if !names.insert(column.name.text.to_lowercase()) {
                let message = format!("column `{}` is declared twice", short(&column.name.text));
                faults.push(Fault::at(column.name.span, message));
            }
        }
    }

    /// The column that a name refers to, as in queries.
    fn resolve_column(&self, name: &Name) -> Option<&DeclaredColumn> {
        let exact = self.columns.iter().find(|column| column.name.text == name.text);
        let folded = || name.text.to_lowercase();
        exact.or_else(|| {
            let mut columns = self.columns.iter();
            columns.find(|column| !name.quoted && column.name.text.to_lowercase() == folded())
        })
    }

    fn no_column(&self, name: &Name) -> Fault {
        let fault = Fault::at(name.span, format!("no column `{}`", short(&name.text)));
        let names = || self.columns.iter().map(|column| &*column.name.text);
        match did_you_mean(&name.text, names()) {
            Some(near) => fault.hint(format!("Did you mean `{near}`?")),
            None if self.columns.is_empty() => fault.hint("No columns are declared."),
            None => {
                const SHOWN: usize = 10;
                let shown: Vec<_> = names().take(SHOWN).collect();
                let more = if self.columns.len() > SHOWN { ", …" } else { "" };
                fault.hint(format!("Columns are {}{more}.", shown.join(", ")))
            }
        }
    }

    fn check_condition(&self, node: &Node, schema: &Schema, faults: &mut Vec<Fault>) {
        let before = faults.len();
        self.check_operands(node, faults);
        if faults.len() > before {
            return;
        }
        let options = ParseOptions { schema: Some(schema), ..ParseOptions::new(Dialect::Native, 0) };
        match planner::plan_expression(node, &options) {
            Ok((_, Some(ty))) if ty != Type::BOOLEAN => {
                faults.push(Fault::at(node.span, format!("CHECK needs a condition, and this is {ty}")));
            }
            Ok(_) => {}
            Err(more) => faults.extend(more),
        }
    }

    fn check_operands(&self, node: &Node, faults: &mut Vec<Fault>) {
        match &node.kind {
            NodeKind::Name(name) if self.resolve_column(name).is_none() => faults.push(self.no_column(name)),
            NodeKind::Now => faults.push(
                Fault::at(node.span, "NOW is not allowed in a CHECK")
                    .hint("The result of a CHECK must not depend on the time of the check."),
            ),
            NodeKind::Call(Builtin::UnixTimestamp, arguments) if arguments.is_empty() => faults.push(
                Fault::at(node.span, "UNIXTIMESTAMP() is not allowed in a CHECK")
                    .hint("The result of a CHECK must not depend on the time of the check."),
            ),
            _ => node.children(&mut |child| self.check_operands(child, faults)),
        }
    }

    fn check_watermark(&mut self, faults: &mut Vec<Fault>) {
        let Some(watermark) = &self.watermark else { return };
        let Some(column) = self.resolve_column(&watermark.column) else {
            faults.push(self.no_column(&watermark.column));
            return;
        };
        if !matches!(column.def.ty, Type::Primitive(Primitive::Timestamp(_) | Primitive::Long)) {
            let message = format!("the time of an event cannot be {}", column.def.ty);
            let hint = "Use a TIMESTAMP, or a LONG of milliseconds since 1970.";
            faults.push(Fault::at(watermark.column.span, message).hint(hint));
        }
        let declared = column.name.text.clone();
        if let Some(watermark) = &mut self.watermark {
            watermark.column.text = declared;
        }
    }

    fn check_options(
        &self,
        options: &StreamOptions,
        spans: &[(StreamOption, Span)],
        faults: &mut Vec<Fault>,
    ) {
        let span = |option| spans.iter().find(|(other, _)| *other == option).map(|(_, span)| *span);
        let mut wrong = |option, message: String, hint: &str| {
            faults.extend(span(option).map(|span| Fault::at(span, message).hint(hint)));
        };
        let is_declared = !self.columns.is_empty();
        let is_stored = options.store.unwrap_or(is_declared);
        if options.ack == Some(Ack::Disk) && !is_stored {
            let hint = "Write `store = true` too.";
            wrong(StreamOption::Ack, "`ack = disk` needs a stored stream".to_owned(), hint);
        }
        let kept = [
            (options.retention_ms.is_some(), StreamOption::Retention),
            (options.partition_by.is_some(), StreamOption::PartitionBy),
        ];
        for (_, option) in kept.into_iter().filter(|(is_set, _)| *is_set && !is_stored) {
            let message = format!("`{}` needs a stored stream", option.text());
            wrong(option, message, "Write `store = true` too.");
        }
        if options.columns_max.is_some() && is_declared {
            let message = "`columns_max` is allowed only without declared columns".to_owned();
            wrong(StreamOption::ColumnsMax, message, "Leave it out.");
        }
        let Some(PartitionBy::Columns(names)) = &options.partition_by else { return };
        for name in names.iter().filter(|_| is_declared) {
            match self.columns.iter().find(|column| column.name.text == *name) {
                None => {
                    let message = format!("no column `{}` to partition by", short(name));
                    wrong(StreamOption::PartitionBy, message, "Name declared columns.");
                }
                Some(column) if !may_partition(&column.def.ty) => {
                    let message =
                        format!("a stream cannot be partitioned by `{}`, a {}", short(name), column.def.ty);
                    let hint = "Use columns of few values: STRING, BOOLEAN, INTEGER, LONG.";
                    wrong(StreamOption::PartitionBy, message, hint);
                }
                Some(_) => {}
            }
        }
    }
}

fn may_partition(ty: &Type) -> bool {
    use Primitive::{Boolean, Integer, Long, String};
    matches!(ty, Type::Primitive(Boolean | Integer | Long | String))
}

pub(super) fn check_default(column: &DeclaredColumn, faults: &mut Vec<Fault>) {
    let Some(default) = &column.default else { return };
    let ty = &column.def.ty;
    let called = match ty {
        Type::Any => "JSON".to_owned(),
        ty => ty.to_string(),
    };
    let wrong = |what: &str| {
        let message =
            format!("the default of `{}` cannot be {what}: it is {called}", short(&column.name.text));
        Fault::at(default.span, message)
    };
    let Some(node) = &default.node else {
        let may_be_time = matches!(ty, Type::Primitive(Primitive::Timestamp(_) | Primitive::Long));
        if !may_be_time {
            faults.push(wrong("NOW").hint("NOW is a TIMESTAMP, or a LONG of milliseconds since 1970."));
        }
        return;
    };
    if !matches!(ty, Type::Primitive(_)) {
        let message = format!("`{}` can have no default: it is {called}", short(&column.name.text));
        faults.push(Fault::at(default.span, message).hint("Lists, maps and JSON have no default."));
        return;
    }
    match planner::plan_expression(node, &ParseOptions::new(Dialect::Native, 0)) {
        Err(more) => faults.extend(more),
        Ok((Expr::Literal(Literal::Null), _)) if column.not_null.is_some() => {
            faults.push(wrong("NULL").hint("Leave the default out, or NOT NULL."));
        }
        Ok((Expr::Literal(literal), _)) => {
            if !may_hold(ty, &literal) {
                faults.push(wrong(&literal.to_string()));
            }
        }
        Ok((_, Some(given))) if !may_become(ty, &given) => faults.push(wrong(&format!("a {given}"))),
        Ok(_) => {}
    }
}

/// True if a column can hold a constant.
fn may_hold(ty: &Type, literal: &Literal) -> bool {
    match (ty, literal) {
        (Type::Primitive(Primitive::Integer), Literal::Long(value)) => i32::try_from(*value).is_ok(),
        (_, Literal::Null) => true,
        (_, Literal::Boolean(_)) => may_become(ty, &Type::BOOLEAN),
        (_, Literal::Integer(_) | Literal::Long(_)) => may_become(ty, &Type::INTEGER),
        (_, Literal::Float(_) | Literal::Double(_)) => may_become(ty, &Type::DOUBLE),
        (_, Literal::String(_)) => may_become(ty, &Type::STRING),
    }
}

/// True if values of one type can stand in a column of the other, as far as types tell.
fn may_become(ty: &Type, given: &Type) -> bool {
    use Primitive::{Double, Float, Integer, Long, String, Timestamp};
    match (ty, given) {
        (Type::Any, _) => true,
        (ty, given) if ty == given => true,
        (Type::Primitive(ty), Type::Primitive(given)) => matches!(
            (ty, given),
            (Integer | Long | Timestamp(_), Integer | Long)
                | (Float | Double, Integer | Long | Float | Double)
                | (Timestamp(_), String | Timestamp(_))
        ),
        _ => false,
    }
}
