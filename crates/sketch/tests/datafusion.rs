//! Tests of the aggregates as DataFusion drives them: batches in, states out and merged, answers.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use datafusion_common::{
    ScalarValue,
    arrow::{
        array::{
            Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, ListArray, StringArray,
            TimestampMicrosecondArray, UInt64Array, cast::AsArray,
        },
        datatypes::{DataType, Field, FieldRef, Float64Type, Int32Type, Schema, UInt64Type},
    },
};
use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator, function::AccumulatorArgs};
use swiftwater_sketch::{
    SketchSizes,
    datafusion::{
        CountDistinctTheta, DistinctSketching, QuantileKll, QuantileSketching, SketchAccumulator,
        SketchFunction, SketchGroupsAccumulator, Sketching, TopK, TopSketching, aggregates,
    },
};

const DISTINCT: DistinctSketching = DistinctSketching { entries: 16384 };
const MEDIAN: QuantileSketching = QuantileSketching { k: 2048, share: 0.5 };

fn top(k: usize, ty: DataType) -> TopSketching {
    TopSketching { entries: 1024, k, ty }
}

/// The answer over batches, each taken in by an accumulator of its own whose state is merged into one.
fn merged<S: Sketching + Clone>(sketching: &S, batches: &[Vec<ArrayRef>]) -> ScalarValue {
    let mut all = SketchAccumulator::new(sketching.clone());
    for batch in batches {
        let mut part = SketchAccumulator::new(sketching.clone());
        part.update_batch(batch).unwrap();
        let state: Vec<ArrayRef> =
            part.state().unwrap().iter().map(|state| state.to_array().unwrap()).collect();
        all.merge_batch(&state).unwrap();
    }
    assert!(all.size() > 0);
    all.evaluate().unwrap()
}

fn longs(values: impl IntoIterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<Int64Array>())
}

#[test]
fn functions_have_their_names() {
    let functions = aggregates(SketchSizes::default());
    let names: Vec<&str> = functions.iter().map(|function| function.name()).collect();
    assert_eq!(names, ["approx_count_distinct_theta", "approx_quantile_kll", "approx_top_k"]);
    let sizes = SketchSizes::default();
    assert_eq!(CountDistinctTheta::new(sizes).return_type(&[DataType::Utf8]), DataType::UInt64);
    assert_eq!(QuantileKll::new(sizes).return_type(&[DataType::Float64]), DataType::Float64);
    let list = TopK::new(sizes).return_type(&[DataType::Utf8, DataType::Int64]);
    assert!(matches!(list, DataType::List(item) if matches!(item.data_type(), DataType::Struct(_))));
}

#[test]
fn calls_that_cannot_be_answered_are_refused() {
    let (schema, field): (Schema, FieldRef) =
        (Schema::empty(), Arc::new(Field::new("x", DataType::Float64, true)));
    let args = |is_distinct| AccumulatorArgs {
        return_field: Arc::clone(&field),
        schema: &schema,
        ignore_nulls: false,
        order_bys: &[],
        is_reversed: false,
        name: "x",
        is_distinct,
        exprs: &[],
        expr_fields: &[],
    };
    let functions = aggregates(SketchSizes::default());
    // The count of distinct values is the same for one of each value and for repeated ones.
    assert!(functions[0].accumulator(args(true)).is_ok());
    for function in &functions[1..] {
        for (is_distinct, told) in [(true, "does not support DISTINCT"), (false, "takes 2 arguments")] {
            let errors = [
                function.accumulator(args(is_distinct)).unwrap_err(),
                function.create_groups_accumulator(args(is_distinct)).err().unwrap(),
            ];
            for error in errors {
                assert!(error.to_string().contains(told), "{error}");
            }
        }
    }
}

#[test]
fn distinct_values_of_all_batches_are_counted_once() {
    let batches = [0, 500, 250].map(|from| vec![longs((from..from + 1000).map(Some).chain([None]))]);
    assert_eq!(merged(&DISTINCT, &batches), ScalarValue::UInt64(Some(1500)));
    assert_eq!(merged(&DISTINCT, &[]), ScalarValue::UInt64(Some(0)));
}

#[test]
fn distinct_values_of_every_type() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some("b"), None, Some("a"), Some("")]));
    let dictionary: DictionaryArray<Int32Type> =
        vec![Some("a"), None, Some("b"), Some("a")].into_iter().collect();
    let numbers: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN, 1.0]));
    let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(1), Some(2), Some(1), None]));
    let truths: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), Some(false), None]));
    for (values, count) in
        [(texts, 3), (Arc::new(dictionary) as ArrayRef, 2), (numbers, 3), (times, 2), (truths, 2)]
    {
        assert_eq!(merged(&DISTINCT, &[vec![values]]), ScalarValue::UInt64(Some(count)));
    }
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1)])]));
    let error = SketchAccumulator::new(DISTINCT).update_batch(&[lists]).unwrap_err();
    assert!(error.to_string().contains("do not accept values of type List"), "{error}");
}

#[test]
fn distinct_combinations_have_no_nulls() {
    let columns = vec![
        longs([Some(1), Some(1), None, Some(1), Some(2)]),
        Arc::new(StringArray::from(vec![Some("a"), Some("b"), Some("a"), None, Some("a")])) as ArrayRef,
    ];
    assert_eq!(merged(&DISTINCT, &[columns.clone(), columns]), ScalarValue::UInt64(Some(3)));
}

#[test]
fn quantiles_pass_over_nulls() {
    let numbers = |from: i32| -> Vec<ArrayRef> {
        let values = (from..from + 100).map(|value| Some(f64::from(value)));
        vec![Arc::new(values.chain([None]).collect::<Float64Array>())]
    };
    assert_eq!(merged(&MEDIAN, &[numbers(100), numbers(0)]), ScalarValue::Float64(Some(100.0)));
    assert_eq!(merged(&MEDIAN, &[]), ScalarValue::Float64(None));
}

#[test]
fn most_frequent_values_keep_their_type() {
    let texts = |values: &[&str]| -> Vec<ArrayRef> { vec![Arc::new(StringArray::from(values.to_vec()))] };
    let batches = [texts(&["a", "b", "a"]), texts(&["b", "a", "c"])];
    let ScalarValue::List(list) = merged(&top(2, DataType::Utf8), &batches) else { panic!("a list") };
    let items = list.value(0);
    let items = items.as_struct();
    assert_eq!(items.column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(items.column(1).as_primitive::<UInt64Type>().values()[..], [3, 2]);
    let ScalarValue::List(list) =
        merged(&top(5, DataType::Int64), &[vec![longs([Some(-7), Some(9), Some(-7)])]])
    else {
        panic!("a list")
    };
    let items = list.value(0);
    assert_eq!(items.as_struct().column(0).as_ref(), longs([Some(-7), Some(9)]).as_ref());
    let ScalarValue::List(list) = merged(&top(5, DataType::Int64), &[]) else { panic!("a list") };
    assert_eq!(list.value(0).len(), 0);
}

#[test]
fn groups_are_kept_apart() {
    let mut groups = SketchGroupsAccumulator::new(DISTINCT);
    let values = [longs([Some(1), Some(2), Some(1), None, Some(3)])];
    groups.update_batch(&values, &[0, 0, 1, 1, 2], None, 3).unwrap();
    let filter = BooleanArray::from(vec![Some(true), Some(false), None, Some(true), Some(true)]);
    groups.update_batch(&[longs((10..15).map(Some))], &[1, 1, 1, 1, 3], Some(&filter), 4).unwrap();
    assert!(groups.size() > 0);
    let first = groups.evaluate(EmitTo::First(2)).unwrap();
    assert_eq!(first.as_ref(), &UInt64Array::from(vec![2, 3]) as &dyn Array);
    let states = groups.state(EmitTo::All).unwrap();
    let mut others = SketchGroupsAccumulator::new(DISTINCT);
    others.merge_batch(&states, &[0, 0], 1).unwrap();
    let each = others.convert_to_state(&[longs([Some(3), Some(4)])], None).unwrap();
    others.merge_batch(&each, &[0, 1], 2).unwrap();
    let counts = others.evaluate(EmitTo::All).unwrap();
    assert_eq!(counts.as_ref(), &UInt64Array::from(vec![2, 1]) as &dyn Array);
}

#[test]
fn groups_have_quantiles_and_tops_of_their_own() {
    let numbers: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0, 40.0]));
    let mut medians = SketchGroupsAccumulator::new(MEDIAN);
    medians.update_batch(std::slice::from_ref(&numbers), &[0, 0, 0, 2], None, 3).unwrap();
    let values = medians.evaluate(EmitTo::All).unwrap();
    let values: Vec<Option<f64>> = values.as_primitive::<Float64Type>().iter().collect();
    assert_eq!(values, [Some(2.0), None, Some(40.0)]);
    let mut tops = SketchGroupsAccumulator::new(top(1, DataType::Float64));
    tops.update_batch(&[numbers], &[0, 0, 0, 2], None, 3).unwrap();
    let lists = tops.evaluate(EmitTo::All).unwrap();
    let lengths: Vec<usize> = lists.as_list::<i32>().iter().flatten().map(|list| list.len()).collect();
    assert_eq!(lengths, [1, 0, 1]);
}

#[test]
fn states_that_are_none_are_errors() {
    let mut all = SketchAccumulator::new(MEDIAN);
    let state = ScalarValue::Binary(Some(b"nonsense".to_vec())).to_array().unwrap();
    assert!(all.merge_batch(&[state]).is_err());
    assert!(all.merge_batch(&[longs([Some(1)])]).is_err());
    assert!(all.merge_batch(&[ScalarValue::Binary(None).to_array().unwrap()]).is_ok());
}
