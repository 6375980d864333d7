//! The requested fields, and builders of their columns that take the values of any parser.

use arrow_array::{
    ArrayRef,
    builder::{
        ArrayBuilder, BooleanBuilder, Float64Builder, Int64Builder, ListBuilder, MapBuilder,
        StringViewBuilder,
    },
};
use hashbrown::HashMap;

/// The type of a field of the published events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Long,
    /// A map to values of this kind.
    Map(Scalar),
    /// A list of maps to texts.
    Maps,
}

/// The type of a map's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Text,
    Double,
    Long,
    Boolean,
}

/// A wanted field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: Kind,
}

impl Field {
    fn of(name: &str) -> Field {
        let number: usize = name[1..].parse().unwrap_or(1);
        let kind = match (&name[..1], number % 4) {
            ("s", _) => Kind::Text,
            ("l", _) => Kind::Long,
            ("v", _) => Kind::Maps,
            (_, 1) => Kind::Map(Scalar::Text),
            (_, 2) => Kind::Map(Scalar::Double),
            (_, 3) => Kind::Map(Scalar::Long),
            _ => Kind::Map(Scalar::Boolean),
        };
        Field { name: name.to_owned(), kind }
    }
}

/// So many fields of the published events: 1, 4, 20 or all 92.
pub(super) fn fields(count: usize) -> Vec<Field> {
    let names: Vec<String> = match count {
        1 => vec!["s31".to_owned()],
        4 => ["s02", "s31", "s60", "l2"].map(str::to_owned).into(),
        20 => {
            let strings = (1..=61).step_by(4).map(|number| format!("s{number:02}"));
            strings.chain((1..=4).map(|number| format!("l{number}"))).collect()
        }
        _ => (1..=62)
            .map(|number| format!("s{number:02}"))
            .chain((1..=4).map(|number| format!("l{number}")))
            .chain((1..=23).map(|number| format!("m{number:02}")))
            .chain((1..=3).map(|number| format!("v{number}")))
            .collect(),
    };
    names.iter().map(|name| Field::of(name)).collect()
}

/// A value of some parser's tree.
pub(super) trait Json<'v>: Copy {
    fn text(self) -> Option<&'v str>;
    fn long(self) -> Option<i64>;
    fn double(self) -> Option<f64>;
    fn boolean(self) -> Option<bool>;
    fn get(self, name: &str) -> Option<Self>;
    /// Returns true if it is an object; takes its entries until `each` says that it is enough.
    fn entries(self, each: impl FnMut(&'v str, Self) -> bool) -> bool;
    /// Returns true if it is a list.
    fn items(self, each: impl FnMut(Self)) -> bool;
}

type Texts = StringViewBuilder;

/// One column being built.
enum Column {
    Text(Texts),
    Long(Int64Builder),
    TextMap(MapBuilder<Texts, Texts>),
    DoubleMap(MapBuilder<Texts, Float64Builder>),
    LongMap(MapBuilder<Texts, Int64Builder>),
    BooleanMap(MapBuilder<Texts, BooleanBuilder>),
    Maps(ListBuilder<MapBuilder<Texts, Texts>>),
}

/// All columns being built.
pub(super) struct Columns {
    columns: Vec<Column>,
}

impl Columns {
    pub(super) fn new(wanted: &[Field], rows: usize) -> Columns {
        let texts = || Texts::with_capacity(rows);
        let columns = wanted.iter().map(|field| match field.kind {
            Kind::Text => Column::Text(texts()),
            Kind::Long => Column::Long(Int64Builder::with_capacity(rows)),
            Kind::Map(Scalar::Text) => Column::TextMap(MapBuilder::new(None, texts(), texts())),
            Kind::Map(Scalar::Double) => {
                Column::DoubleMap(MapBuilder::new(None, texts(), Float64Builder::new()))
            }
            Kind::Map(Scalar::Long) => Column::LongMap(MapBuilder::new(None, texts(), Int64Builder::new())),
            Kind::Map(Scalar::Boolean) => {
                Column::BooleanMap(MapBuilder::new(None, texts(), BooleanBuilder::new()))
            }
            Kind::Maps => Column::Maps(ListBuilder::new(MapBuilder::new(None, texts(), texts()))),
        });
        Columns { columns: columns.collect() }
    }

    pub(super) fn push_text(&mut self, column: usize, text: Option<&str>) {
        if let Column::Text(builder) = &mut self.columns[column] {
            builder.append_option(text);
        }
    }

    pub(super) fn push_long(&mut self, column: usize, long: Option<i64>) {
        if let Column::Long(builder) = &mut self.columns[column] {
            builder.append_option(long);
        }
    }

    pub(super) fn push<'v, J: Json<'v>>(&mut self, column: usize, value: Option<J>) -> anyhow::Result<()> {
        match &mut self.columns[column] {
            Column::Text(builder) => builder.append_option(value.and_then(J::text)),
            Column::Long(builder) => builder.append_option(value.and_then(J::long)),
            Column::TextMap(builder) => {
                map(builder, value, |values, value| values.append_option(value.text()))?
            }
            Column::DoubleMap(builder) => {
                map(builder, value, |values, value| values.append_option(value.double()))?;
            }
            Column::LongMap(builder) => {
                map(builder, value, |values, value| values.append_option(value.long()))?
            }
            Column::BooleanMap(builder) => {
                map(builder, value, |values, value| values.append_option(value.boolean()))?;
            }
            Column::Maps(builder) => {
                let mut done = Ok(());
                let is_list = value.is_some_and(|value| {
                    value.items(|item| {
                        let added = map(builder.values(), Some(item), |values, value| {
                            values.append_option(value.text())
                        });
                        if done.is_ok() {
                            done = added;
                        }
                    })
                });
                builder.append(is_list);
                done?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Vec<ArrayRef> {
        let finished = self.columns.into_iter().map(|column| -> ArrayRef {
            match column {
                Column::Text(mut builder) => ArrayBuilder::finish(&mut builder),
                Column::Long(mut builder) => ArrayBuilder::finish(&mut builder),
                Column::TextMap(mut builder) => ArrayBuilder::finish(&mut builder),
                Column::DoubleMap(mut builder) => ArrayBuilder::finish(&mut builder),
                Column::LongMap(mut builder) => ArrayBuilder::finish(&mut builder),
                Column::BooleanMap(mut builder) => ArrayBuilder::finish(&mut builder),
                Column::Maps(mut builder) => ArrayBuilder::finish(&mut builder),
            }
        });
        finished.collect()
    }
}

fn map<'v, J: Json<'v>, V: ArrayBuilder>(
    builder: &mut MapBuilder<Texts, V>,
    value: Option<J>,
    mut push: impl FnMut(&mut V, J),
) -> anyhow::Result<()> {
    let is_map = value.is_some_and(|value| {
        value.entries(|key, value| {
            builder.keys().append_value(key);
            push(builder.values(), value);
            true
        })
    });
    Ok(builder.append(is_map)?)
}

/// Finds a tree's fields: a few by name, many by one walk that tries the next name first.
pub(super) struct Finder {
    names: Vec<String>,
    places: HashMap<String, usize>,
}

/// Above so many names, one walk costs less than finding each.
const BY_NAME_MAX: usize = 4;

impl Finder {
    pub(super) fn new(wanted: &[Field]) -> Finder {
        let names: Vec<String> = wanted.iter().map(|field| field.name.clone()).collect();
        let places = names.iter().cloned().enumerate().map(|(place, name)| (name, place)).collect();
        Finder { names, places }
    }

    pub(super) fn push<'v, J: Json<'v>>(&self, event: J, columns: &mut Columns) -> anyhow::Result<()> {
        if self.names.len() <= BY_NAME_MAX {
            for (place, name) in self.names.iter().enumerate() {
                columns.push(place, event.get(name))?;
            }
            return Ok(());
        }
        let mut values: Vec<Option<J>> = vec![None; self.names.len()];
        let (mut next, mut missing) = (0, self.names.len());
        event.entries(|name, value| {
            let place = match self.names.get(next) {
                Some(expected) if expected == name => Some(next),
                _ => self.places.get(name).copied(),
            };
            if let Some(place) = place {
                values[place] = Some(value);
                next = place + 1;
                missing -= 1;
            }
            missing > 0
        });
        for (place, value) in values.into_iter().enumerate() {
            columns.push(place, value)?;
        }
        Ok(())
    }
}
