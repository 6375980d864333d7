//! Our decoder, as it is measured.

use std::sync::Arc;

use anyhow::ensure;
use arrow_array::ArrayRef;
use swiftwater_event::{CheckLimits, DecodePlan, Decoder, Path, Type, Values, Want, check_block};

use super::{
    Contestant,
    blocks::Block,
    columns::{Field, Kind, Scalar},
};

/// Our own, of checked batches or of text that it checks first.
pub(crate) struct Ours {
    plan: DecodePlan,
    decoder: Decoder,
    checks: bool,
}

impl Ours {
    pub(super) fn new(wanted: &[Field], checks: bool) -> Ours {
        let wants = wanted.iter().filter_map(|field| {
            let path = Path::parse(&field.name).ok()?;
            Some(Want { path, ty: type_of(field.kind) })
        });
        Ours { plan: DecodePlan::new(wants), decoder: Decoder::new(), checks }
    }
}

fn type_of(kind: Kind) -> Type {
    let map = |of: Type| Type::map(of).unwrap_or(Type::Any);
    match kind {
        Kind::Text => Type::STRING,
        Kind::Long => Type::LONG,
        Kind::Map(Scalar::Text) => map(Type::STRING),
        Kind::Map(Scalar::Double) => map(Type::DOUBLE),
        Kind::Map(Scalar::Long) => map(Type::LONG),
        Kind::Map(Scalar::Boolean) => map(Type::BOOLEAN),
        Kind::Maps => Type::list(map(Type::STRING)).unwrap_or(Type::Any),
    }
}

impl Contestant for Ours {
    fn name(&self) -> &'static str {
        if self.checks { "ours with the check before it" } else { "ours" }
    }

    fn decode(&mut self, block: &Block) -> anyhow::Result<Vec<ArrayRef>> {
        let decoded = if self.checks {
            let checked = check_block(block.text.clone(), &CheckLimits::default(), 1);
            ensure!(checked.rejected == 0, "a good event was refused");
            self.decoder.decode(&checked.batch, &self.plan)
        } else {
            self.decoder.decode(&block.batch, &self.plan)
        };
        let columns = decoded.columns.into_iter().map(|column| -> ArrayRef {
            match column.values {
                Values::Boolean(array) => Arc::new(array),
                Values::Integer(array) => Arc::new(array),
                Values::Long(array) => Arc::new(array),
                Values::Float(array) => Arc::new(array),
                Values::Double(array) => Arc::new(array),
                Values::String(array) => Arc::new(array),
                Values::Timestamp(array) => Arc::new(array),
                Values::Nested(array) => array,
                Values::Tagged(tagged) => Arc::new(tagged.containers),
            }
        });
        Ok(columns.collect())
    }
}

/// Splits and checks a block; answers its events.
pub(super) fn check(block: &Block) -> anyhow::Result<usize> {
    let checked = check_block(block.text.clone(), &CheckLimits::default(), 1);
    ensure!(checked.rejected == 0, "a good event was refused");
    Ok(checked.batch.len())
}
