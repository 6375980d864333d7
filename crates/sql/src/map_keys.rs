//! Plans `map['key']` for maps whose keys are Arrow string views, as the keys of stored maps are.
//!
//! ```text
//! before: get_field(map, Utf8("key"))     after: get_field(map, Utf8View("key"))
//! ```
//!
//! DataFusion compares the keys with the literal as it was written, which has another type.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::execution::SessionStateBuilder;
use datafusion::functions::core::get_field;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::{ExprSchemable, GetFieldAccess, lit};

/// Makes sessions plan it, before DataFusion's own way.
pub(crate) fn register(builder: &mut SessionStateBuilder) {
    builder.expr_planners().get_or_insert_default().insert(0, Arc::new(MapKeys));
}

#[derive(Debug)]
struct MapKeys;

impl ExprPlanner for MapKeys {
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let GetFieldAccess::NamedStructField { name } = &access.field_access else {
            return Ok(PlannerResult::Original(access));
        };
        match name.try_as_str() {
            Some(Some(key)) if has_view_keys(&access.expr.get_type(schema)?) => {
                let key = lit(ScalarValue::Utf8View(Some(key.to_owned())));
                Ok(PlannerResult::Planned(get_field().call(vec![access.expr, key])))
            }
            _ => Ok(PlannerResult::Original(access)),
        }
    }
}

fn has_view_keys(ty: &DataType) -> bool {
    let DataType::Map(entries, _) = ty else { return false };
    let DataType::Struct(fields) = entries.data_type() else { return false };
    fields.first().is_some_and(|key| key.data_type() == &DataType::Utf8View)
}
