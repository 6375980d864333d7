//! Refuses function calls whose result would be far larger than their arguments: `repeat('a', 2000000000)`.
//!
//! DataFusion's pool counts the memory of operators, not the results of expressions. For each batch, this module computes
//! the size of the result from the arguments before the call. It refuses a result that is too large with the pool's
//! error, so the statement may be planned again with smaller batches. The sum over several expressions is not counted.
//!
//! Limit: one result may use an eighth of the statement's memory, because a constant result is copied several times.
//! `approx_percentile_cont` allocates all its centroids before it reads a row; it may have [`CENTROIDS_MAX`].

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, LargeStringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Int64Type, IntervalMonthDayNanoType, TimeUnit};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::execution::memory_pool::human_readable_size;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};
use regex::Regex;

/// One result may have the memory of its statement divided by this.
const SHARE: usize = 8;
/// Constants up to so many bytes are not counted for each row.
const SMALL_BYTES: usize = 64;

/// The functions that are limited, and the growth of their results.
const FUNCTIONS: [(&str, Growth); 13] = [
    ("replace", Growth::Replace),
    ("regexp_replace", Growth::ReplaceMatches),
    ("array_to_string", Growth::Join),
    ("concat_ws", Growth::Separate),
    ("repeat", Growth::Repeat),
    ("lpad", Growth::Pad),
    ("rpad", Growth::Pad),
    ("array_repeat", Growth::RepeatElement),
    ("array_replace_n", Growth::ReplaceElements),
    ("array_replace_all", Growth::ReplaceElements),
    ("array_resize", Growth::Resize),
    ("range", Growth::Range),
    ("generate_series", Growth::Range),
];

/// Replaces functions of a session by their bounded forms.
pub(crate) fn register(state: &mut SessionState, memory_bytes_max: usize) -> Result<()> {
    for (name, growth) in FUNCTIONS {
        let inner = state.udf(name)?;
        state.register_udf(Arc::new(ScalarUDF::from(Bounded { inner, growth, memory_bytes_max })))?;
    }
    Ok(())
}

/// Centroids of a t-digest; a hundred are DataFusion's default, of 16 bytes each.
const CENTROIDS_MAX: u64 = 100_000;

/// Refuses `approx_percentile_cont` with more centroids than may be, or with a number of them that is not written as one.
pub(crate) fn check_digests(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| node.apply_expressions(|expr| expr.apply(check_digest)))?;
    Ok(())
}

fn check_digest(expr: &Expr) -> Result<TreeNodeRecursion> {
    let (name, arguments) = match expr {
        Expr::AggregateFunction(call) => (call.func.name(), &call.params.args),
        Expr::WindowFunction(call) => (call.fun.name(), &call.params.args),
        _ => return Ok(TreeNodeRecursion::Continue),
    };
    let before = match name {
        "approx_percentile_cont" => 2,
        "approx_percentile_cont_with_weight" => 3,
        _ => return Ok(TreeNodeRecursion::Continue),
    };
    match arguments.get(before).map(centroids) {
        Some(count) if count.is_none_or(|count| count > CENTROIDS_MAX) => {
            plan_err!("{name} has {CENTROIDS_MAX} centroids at most")
        }
        _ => Ok(TreeNodeRecursion::Continue),
    }
}

fn centroids(expr: &Expr) -> Option<u64> {
    let value = match expr {
        Expr::Literal(value, _) => value,
        Expr::Cast(cast) => return centroids(&cast.expr),
        _ => return None,
    };
    match value.cast_to(&DataType::UInt64).ok()? {
        ScalarValue::UInt64(count) => count,
        _ => None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Growth {
    /// A text in place of each occurrence of another.
    Replace,
    /// A text in place of each match of a pattern.
    ReplaceMatches,
    /// A text between the elements of a list.
    Join,
    /// A text between others.
    Separate,
    /// A text, that many times.
    Repeat,
    /// A text padded to that many characters.
    Pad,
    /// An element, that many times.
    RepeatElement,
    /// An element in place of each equal one of a list.
    ReplaceElements,
    /// A list of that many elements.
    Resize,
    /// A list of the values from one to another, by steps.
    Range,
}

/// Methods that none of these functions has of its own stay at their defaults.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
    memory_bytes_max: usize,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arguments)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(arguments)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arguments)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let bytes_max = self.memory_bytes_max / SHARE;
        let bytes = CallArguments::new(&arguments)?.bytes(self.growth, bytes_max);
        if bytes > bytes_max {
            // Worded as the pool's own, which errors are made of.
            return Err(DataFusionError::ResourcesExhausted(format!(
                "Failed to allocate additional {} for what `{}` makes at once, which may be an eighth of the limit for \
                 the total memory pool: expressions(pool_size: {})",
                human_readable_size(bytes),
                self.name(),
                human_readable_size(self.memory_bytes_max)
            )));
        }
        self.inner.invoke_with_args(arguments)
    }
}

/// The arguments of a call. A constant is a column of one row.
struct CallArguments {
    columns: Vec<ArrayRef>,
    rows: usize,
    /// Bytes of the constants once they are columns as long as the others.
    spread_bytes: usize,
}

impl CallArguments {
    fn new(arguments: &ScalarFunctionArgs) -> Result<CallArguments> {
        let is_constant = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        let rows = if arguments.args.iter().all(is_constant) { 1 } else { arguments.number_rows };
        let mut columns = Vec::with_capacity(arguments.args.len());
        let mut spread_bytes = 0_usize;
        for value in &arguments.args {
            let column = match value {
                ColumnarValue::Array(array) => Arc::clone(array),
                ColumnarValue::Scalar(value) => value.to_array()?,
            };
            if is_constant(value) && rows > 1 && size(&column) > SMALL_BYTES {
                spread_bytes = spread_bytes.saturating_add(size(&column).saturating_mul(rows));
            }
            columns.push(column);
        }
        Ok(CallArguments { columns, rows, spread_bytes })
    }

    /// The bytes that a result takes, about; those of values that the function will not take are not counted. A result up to
    /// `bytes_max` may be too low.
    fn bytes(&self, growth: Growth, bytes_max: usize) -> usize {
        let made = match growth {
            Growth::Replace => self.replaced(bytes_max),
            Growth::ReplaceMatches => self.matches_replaced(bytes_max),
            Growth::Join => self.joined(),
            Growth::Separate => self.separated(),
            Growth::Repeat => self.repeated(),
            Growth::Pad => self.padded(),
            Growth::RepeatElement => self.elements(),
            Growth::ReplaceElements => self.elements_replaced(),
            Growth::Resize => self.resized(),
            Growth::Range => self.ranges(),
        };
        made.unwrap_or(0).saturating_add(self.spread_bytes)
    }

    fn replaced(&self, bytes_max: usize) -> Option<usize> {
        let sizes = [0, 1, 2].map(|index| self.columns.get(index).and_then(text_bytes));
        let [Some(texts), Some(from), Some(to)] = &sizes else { return None };
        // As if there were nothing else in the texts. An empty one stands between all characters.
        let most = self.total(|row| {
            let (text, from, to) = (at(texts, row)?, at(from, row)?, at(to, row)?);
            let found = text.checked_div(from).unwrap_or(text.saturating_add(1));
            Some(text.saturating_add(found.saturating_mul(to)))
        });
        if most <= bytes_max {
            return Some(most);
        }
        let large = |index: usize| cast(self.columns.get(index)?, &DataType::LargeUtf8).ok();
        let (all, wanted) = (large(0)?, large(1)?);
        let (all, wanted) = (all.as_string_opt::<i64>()?, wanted.as_string_opt::<i64>()?);
        let text = |column: &LargeStringArray, row: usize| {
            let row = if column.len() == 1 { 0 } else { row };
            column.is_valid(row).then(|| column.value(row).to_owned())
        };
        Some(self.total(|row| {
            let (all, wanted) = (text(all, row)?, text(wanted, row)?);
            let found = all.matches(&*wanted).count();
            let gone = found.saturating_mul(wanted.len());
            Some((all.len() - gone).saturating_add(found.saturating_mul(at(to, row)?)))
        }))
    }

    fn matches_replaced(&self, bytes_max: usize) -> Option<usize> {
        let [Some(texts), Some(to)] = [0, 2].map(|index| self.columns.get(index).and_then(text_bytes)) else {
            return None;
        };
        // As if each character were found, and each one put in were a reference to all that was.
        let most = self.total(|row| {
            let (text, to) = (at(&texts, row)?, at(&to, row)?);
            Some(text.saturating_add(text.saturating_mul(2).saturating_add(1).saturating_mul(to)))
        });
        if most <= bytes_max {
            return Some(most);
        }
        let all = |index: usize| cast(self.columns.get(index)?, &DataType::LargeUtf8).ok();
        let (texts, patterns, to, flags) = (all(0)?, all(1)?, all(2)?, all(3));
        let mut last: Option<((&str, &str), Option<Regex>)> = None;
        let mut bytes = 0_usize;
        for row in 0..self.rows {
            let given = (text(&texts, row), text(&patterns, row), text(&to, row));
            let (Some(text), Some(pattern), Some(to)) = given else { continue };
            let flags = flags.as_ref().and_then(|flags| self::text(flags, row)).unwrap_or("");
            if last.as_ref().is_none_or(|(of, _)| *of != (pattern, flags)) {
                let others = flags.replace('g', "");
                let flagged =
                    if others.is_empty() { pattern.to_owned() } else { format!("(?{others}){pattern}") };
                // A pattern that is none is refused by the function.
                last = Some(((pattern, flags), Regex::new(&flagged).ok()));
            }
            let Some((_, Some(regex))) = &last else { continue };
            let wanted = if flags.contains('g') { usize::MAX } else { 1 };
            let (found, gone) = regex
                .find_iter(text)
                .take(wanted)
                .fold((0_usize, 0), |(found, gone), one| (found + 1, gone + one.len()));
            let references = to.bytes().filter(|byte| matches!(byte, b'$' | b'\\')).count();
            let put_in = found.saturating_mul(to.len()).saturating_add(references.saturating_mul(gone));
            bytes = bytes.saturating_add(text.len()).saturating_add(put_in);
        }
        Some(bytes)
    }

    /// Separators and texts for nulls alone: the elements are about as large already, as a number's text is a few times its size.
    fn joined(&self) -> Option<usize> {
        let lists = self.columns.first()?;
        let between = text_bytes(self.columns.get(1)?)?;
        let null = self.columns.get(2).and_then(text_bytes);
        let lengths = lengths(lists, leaves)?;
        Some(self.total(|row| {
            let length = *lengths.get(if lengths.len() == 1 { 0 } else { row })?;
            let null = null.as_ref().and_then(|null| at(null, row)).unwrap_or(0);
            Some(length.saturating_mul(at(&between, row)?.saturating_add(null)))
        }))
    }

    fn separated(&self) -> Option<usize> {
        let (between, others) = self.columns.split_first()?;
        let between = text_bytes(between)?;
        let others: Vec<Option<Int64Array>> = others.iter().map(text_bytes).collect();
        Some(self.total(|row| {
            let between = at(&between, row)?;
            let one =
                |other: &Option<Int64Array>| other.as_ref().and_then(|other| at(other, row)).unwrap_or(0);
            Some(
                others
                    .iter()
                    .fold(0, |all: usize, other| all.saturating_add(one(other).saturating_add(between))),
            )
        }))
    }

    fn repeated(&self) -> Option<usize> {
        let (texts, counts) = (text_bytes(self.columns.first()?)?, self.numbers(1)?);
        Some(self.total(|row| Some(at(&texts, row)?.saturating_mul(at(&counts, row)?))))
    }

    fn padded(&self) -> Option<usize> {
        let lengths = self.numbers(1)?;
        let widths = match self.columns.get(2) {
            Some(fill) => widest_characters(fill)?,
            None => Int64Array::from(vec![1]),
        };
        Some(self.total(|row| Some(at(&lengths, row)?.saturating_mul(at(&widths, row)?))))
    }

    fn elements(&self) -> Option<usize> {
        let (sizes, counts) = (element_bytes(self.columns.first()?), self.numbers(1)?);
        // A null is repeated like any other element.
        Some(self.total(|row| Some(at(&sizes, row).unwrap_or(1).saturating_mul(at(&counts, row)?))))
    }

    fn elements_replaced(&self) -> Option<usize> {
        let (lists, to) = (self.columns.first()?, self.columns.get(2)?);
        // A number takes the place of a number.
        if to.data_type().primitive_width().is_some() {
            return Some(size(lists));
        }
        let (lengths, sizes) = (lengths(lists, |list| list.map_or(0, |list| list.len()))?, element_bytes(to));
        let replaced = self.total(|row| {
            let length = *lengths.get(if lengths.len() == 1 { 0 } else { row })?;
            Some(length.saturating_mul(at(&sizes, row).unwrap_or(1)))
        });
        Some(size(lists).saturating_add(replaced))
    }

    fn resized(&self) -> Option<usize> {
        let counts = self.numbers(1)?;
        let sizes = match (self.columns.get(2), self.columns.first()?.data_type()) {
            (Some(element), _) => element_bytes(element),
            (None, DataType::List(item) | DataType::LargeList(item)) => {
                Int64Array::from(vec![item.data_type().primitive_width().unwrap_or(4) as i64])
            }
            (None, _) => return None,
        };
        Some(self.total(|row| Some(at(&sizes, row).unwrap_or(1).saturating_mul(at(&counts, row)?))))
    }

    fn ranges(&self) -> Option<usize> {
        let (start, stop) = match self.columns.as_slice() {
            [_] => (Int64Array::from(vec![0]), self.numbers(0)?),
            _ => (self.numbers(0)?, self.numbers(1)?),
        };
        let (unit_nanos, width) = match self.columns.first()?.data_type() {
            DataType::Date32 => (NANOS_PER_DAY, 4),
            DataType::Date64 => (1_000_000, 4),
            DataType::Timestamp(TimeUnit::Second, _) => (1_000_000_000, 8),
            DataType::Timestamp(TimeUnit::Millisecond, _) => (1_000_000, 8),
            DataType::Timestamp(TimeUnit::Microsecond, _) => (1000, 8),
            _ => (1, 8),
        };
        let steps: Vec<i128> = match self.columns.get(2) {
            None => vec![1],
            Some(column) => steps(column)?,
        };
        Some(self.total(|row| {
            let step = *steps.get(if steps.len() == 1 { 0 } else { row })?;
            let span = i128::from(signed(&stop, row)?) - i128::from(signed(&start, row)?);
            let span = span * unit_nanos;
            if step == 0 || (span < 0) != (step < 0) {
                return Some(0);
            }
            Some(usize::try_from(span / step + 1).unwrap_or(usize::MAX).saturating_mul(width))
        }))
    }

    fn numbers(&self, index: usize) -> Option<Int64Array> {
        let numbers = cast(self.columns.get(index)?, &DataType::Int64).ok()?;
        numbers.as_primitive_opt::<Int64Type>().cloned()
    }

    /// The sum over all rows; a row without a result counts as 0.
    fn total(&self, bytes: impl Fn(usize) -> Option<usize>) -> usize {
        (0..self.rows).fold(0, |total: usize, row| total.saturating_add(bytes(row).unwrap_or(0)))
    }
}

const NANOS_PER_DAY: i128 = 86_400_000_000_000;

fn signed(column: &Int64Array, row: usize) -> Option<i64> {
    let row = if column.len() == 1 { 0 } else { row };
    (row < column.len() && column.is_valid(row)).then(|| column.value(row))
}

/// Returns the value of a row; a negative one becomes 0.
fn at(column: &Int64Array, row: usize) -> Option<usize> {
    signed(column, row).map(|value| usize::try_from(value).unwrap_or(0))
}

/// Approximate bytes of a column.
fn size(column: &ArrayRef) -> usize {
    column.to_data().get_slice_memory_size().unwrap_or(0)
}

/// A value of a column of large texts; a constant has the same for each row.
fn text(column: &ArrayRef, row: usize) -> Option<&str> {
    let column = column.as_string_opt::<i64>()?;
    let row = if column.len() == 1 { 0 } else { row };
    column.is_valid(row).then(|| column.value(row))
}

/// A size of each list of a column, by `of`.
fn lengths(lists: &ArrayRef, of: impl Fn(Option<&ArrayRef>) -> usize) -> Option<Vec<usize>> {
    Some(match lists.data_type() {
        DataType::List(_) => lists.as_list::<i32>().iter().map(|list| of(list.as_ref())).collect(),
        DataType::LargeList(_) => lists.as_list::<i64>().iter().map(|list| of(list.as_ref())).collect(),
        DataType::FixedSizeList(..) => {
            lists.as_fixed_size_list().iter().map(|list| of(list.as_ref())).collect()
        }
        _ => return None,
    })
}

/// The elements of a list, and of those in it.
fn leaves(list: Option<&ArrayRef>) -> usize {
    let Some(list) = list else { return 0 };
    match list.data_type() {
        DataType::List(_) => list.as_list::<i32>().iter().map(|inner| leaves(inner.as_ref())).sum(),
        DataType::LargeList(_) => list.as_list::<i64>().iter().map(|inner| leaves(inner.as_ref())).sum(),
        _ => list.len(),
    }
}

fn text_bytes(column: &ArrayRef) -> Option<Int64Array> {
    let long = |length: usize| i64::try_from(length).unwrap_or(i64::MAX);
    Some(match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().iter().map(|text| Some(long(text?.len()))).collect(),
        DataType::LargeUtf8 => column.as_string::<i64>().iter().map(|text| Some(long(text?.len()))).collect(),
        DataType::Utf8View => column.as_string_view().iter().map(|text| Some(long(text?.len()))).collect(),
        _ => return None,
    })
}

/// The bytes of the widest character of each text.
fn widest_characters(column: &ArrayRef) -> Option<Int64Array> {
    let texts = cast(column, &DataType::LargeUtf8).ok()?;
    let texts = texts.as_string_opt::<i64>()?;
    let widest = |text: &str| text.chars().map(char::len_utf8).max().unwrap_or(0) as i64;
    Some(texts.iter().map(|text| text.map(widest)).collect())
}

/// Bytes of each value in a list; for nested lists the average.
fn element_bytes(column: &ArrayRef) -> Int64Array {
    let all = |bytes: usize| Int64Array::from(vec![i64::try_from(bytes).unwrap_or(i64::MAX)]);
    match column.data_type() {
        DataType::Null | DataType::Boolean => all(1),
        // The texts themselves are shared.
        DataType::Utf8View | DataType::BinaryView => all(16),
        ty => match (ty.primitive_width(), text_bytes(column)) {
            (Some(width), _) => all(width),
            (None, Some(texts)) => {
                texts.iter().map(|bytes| Some(bytes.unwrap_or(0).saturating_add(4))).collect()
            }
            (None, None) => all(size(column) / column.len().max(1)),
        },
    }
}

/// The steps: whole numbers, or intervals in nanoseconds, a month at its shortest.
fn steps(column: &ArrayRef) -> Option<Vec<i128>> {
    if let Some(intervals) = column.as_primitive_opt::<IntervalMonthDayNanoType>() {
        let nanos = intervals.iter().map(|step| {
            step.map_or(0, |step| {
                let days = i128::from(step.months) * 28 + i128::from(step.days);
                days * NANOS_PER_DAY + i128::from(step.nanoseconds)
            })
        });
        return Some(nanos.collect());
    }
    let numbers = cast(column, &DataType::Int64).ok()?;
    let numbers = numbers.as_primitive_opt::<Int64Type>()?;
    Some(numbers.iter().map(|step| i128::from(step.unwrap_or(0))).collect())
}
