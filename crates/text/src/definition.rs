//! The definition of a search index: the columns that it covers, and how their values are compared.
//!
//! | kind | a value is found by |
//! | --- | --- |
//! | `TEXT` | the words in it |
//! | `ID` | the whole of it, exactly |
//! | `FACET` | the whole of it, and by each of its ancestors where it is a path |
//!
//! A column may have each kind once. A condition on a column with several kinds is compared as `TEXT` before `FACET` before
//! `ID`. The definition changes the meaning of searches, whether or not an index has been built: the scan follows it, too.

use std::borrow::Cow;

use crate::{
    analyzer::{AnalyzerOptions, Language},
    columns::TextKind,
};

/// The metadata key of a field that has the [`ColumnIndex`] of its column.
pub const SEARCH_METADATA: &str = "swiftwater.search";

/// The most columns that a definition declares; `*` covers any number.
pub const SEARCH_COLUMNS_MAX: usize = 256;

/// The largest weight of a column's scores.
pub const BOOST_MAX: f32 = 1000.0;

/// The longest text that divides a value of kind `FACET` into the steps of a path, in bytes of UTF-8.
pub const SEPARATOR_BYTES_MAX: usize = 16;

/// A kind that a column can be indexed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IndexKind {
    /// `TEXT`.
    Text,
    /// `ID`.
    Id,
    /// `FACET`.
    Facet,
}

/// The definition of the search index of one table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchDefinition {
    /// The declared columns, as they were declared.
    pub columns: Vec<(Box<str>, ColumnIndex)>,
    /// True if it covers every column with text, and what stands in `_event`.
    pub covers_all: bool,
    /// The columns that a word without a column is looked for in; empty for all of kind `TEXT`.
    pub defaults: Vec<Box<str>>,
}

/// The kinds that a column is indexed as.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ColumnIndex {
    /// Its words.
    pub text: Option<TextIndex>,
    /// Its whole values.
    pub id: Option<IdIndex>,
    /// Its values as categories.
    pub facet: Option<FacetIndex>,
    /// True if a word without a column is looked for in it.
    pub is_default: bool,
}

/// The options of `TEXT`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TextIndex {
    /// The analysis of its texts.
    pub analyzer: AnalyzerOptions,
    /// The weight of its scores.
    pub boost: f32,
    /// True if the index has the positions of words; else the rows verify phrases.
    pub has_positions: bool,
}

/// The options of `ID`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IdIndex {
    /// True if its values are the ids of activities, which events of several streams share.
    pub is_correlation: bool,
}

/// The options of `FACET`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FacetIndex {
    /// The text that divides a value into the steps of a path; none where values have no ancestors.
    pub separator: Option<Box<str>>,
}

impl Default for TextIndex {
    fn default() -> TextIndex {
        TextIndex { analyzer: AnalyzerOptions::default(), boost: 1.0, has_positions: true }
    }
}

impl IndexKind {
    /// All kinds, in the order in which a definition is printed.
    pub const ALL: [IndexKind; 3] = [IndexKind::Text, IndexKind::Id, IndexKind::Facet];

    /// The kind's name.
    pub fn text(self) -> &'static str {
        match self {
            IndexKind::Text => "TEXT",
            IndexKind::Id => "ID",
            IndexKind::Facet => "FACET",
        }
    }
}

impl SearchDefinition {
    /// The place of a declared column: by its exact name, else in any letter case.
    pub fn place(&self, column: &str) -> Option<usize> {
        let names = || self.columns.iter().map(|(name, _)| &**name);
        let folded = || column.to_lowercase();
        let exact = names().position(|name| name == column);
        exact.or_else(|| names().position(|name| name.to_lowercase() == folded()))
    }

    /// Adds kinds of a column to those that it has; the error is a kind that it has already.
    pub fn add(&mut self, column: &str, index: ColumnIndex) -> Result<(), IndexKind> {
        let declared = match self.place(column) {
            Some(place) => &mut self.columns[place].1,
            None => {
                self.columns.push((column.into(), index));
                return Ok(());
            }
        };
        if let Some(twice) = index.kinds().find(|kind| declared.has(*kind)) {
            return Err(twice);
        }
        declared.text = index.text.or(declared.text);
        declared.id = index.id.or(declared.id);
        declared.facet = index.facet.or(declared.facet.take());
        Ok(())
    }

    /// Sets the default columns. A declared column has the name that it was declared with.
    pub fn set_defaults(&mut self, columns: &[Box<str>]) {
        let declared = |column: &str| match self.place(column) {
            Some(place) => self.columns[place].0.clone(),
            None => column.into(),
        };
        self.defaults = columns.iter().map(|column| declared(column)).collect();
    }

    /// The kinds of a column, whether it is declared or covered with all others; none if the index does not cover it.
    pub fn column(&self, name: &str) -> Option<Cow<'_, ColumnIndex>> {
        let declared = self.columns.iter().find(|(column, _)| **column == *name).map(|(_, index)| index);
        let is_default = |is_text: bool| match self.defaults.as_slice() {
            [] => is_text,
            defaults => defaults.iter().any(|default| **default == *name),
        };
        match declared {
            Some(index) => {
                let is_default = is_default(index.text.is_some());
                Some(Cow::Owned(ColumnIndex { is_default, ..index.clone() }))
            }
            None if self.covers_all => {
                let text = Some(TextIndex::default());
                Some(Cow::Owned(ColumnIndex { text, is_default: is_default(true), ..ColumnIndex::default() }))
            }
            None => None,
        }
    }
}

impl ColumnIndex {
    /// True if the column is indexed as this kind.
    pub fn has(&self, kind: IndexKind) -> bool {
        match kind {
            IndexKind::Text => self.text.is_some(),
            IndexKind::Id => self.id.is_some(),
            IndexKind::Facet => self.facet.is_some(),
        }
    }

    /// The kinds that the column is indexed as.
    pub fn kinds(&self) -> impl Iterator<Item = IndexKind> + '_ {
        IndexKind::ALL.into_iter().filter(|kind| self.has(*kind))
    }

    /// Removes a kind.
    pub fn remove(&mut self, kind: IndexKind) {
        match kind {
            IndexKind::Text => self.text = None,
            IndexKind::Id => self.id = None,
            IndexKind::Facet => self.facet = None,
        }
    }

    /// The weight of the scores of its words.
    pub fn boost(&self) -> f32 {
        self.text.map_or(1.0, |text| text.boost)
    }

    /// The comparison of a condition on the column with its texts.
    pub fn text_kind(&self) -> TextKind {
        match self {
            ColumnIndex { text: Some(_), .. } => TextKind::Words,
            ColumnIndex { facet: Some(FacetIndex { separator: Some(separator) }), .. } => {
                TextKind::Path { separator: separator.clone() }
            }
            ColumnIndex { facet: None, id: None, .. } => TextKind::Words,
            _ => TextKind::Whole,
        }
    }

    /// The analysis of its words.
    pub fn analyzer_options(&self) -> AnalyzerOptions {
        self.text.map(|text| text.analyzer).unwrap_or_default()
    }

    /// The value of [`SEARCH_METADATA`]: one text for each definition, which [`ColumnIndex::from_metadata`] reads.
    pub fn to_metadata(&self) -> String {
        let mut parts = Vec::new();
        if let Some(TextIndex { analyzer, boost, has_positions }) = self.text {
            let AnalyzerOptions { stem, fold_accents, split_code } = analyzer;
            parts.push("text".to_owned());
            parts.extend(stem.map(|language| format!("stem={}", language_name(language))));
            parts.extend(fold_accents.then(|| "fold".to_owned()));
            parts.extend(split_code.then(|| "split".to_owned()));
            if boost.to_bits() != 1.0_f32.to_bits() {
                parts.push(format!("boost={boost}"));
            }
            parts.extend((!has_positions).then(|| "no-positions".to_owned()));
        }
        if let Some(IdIndex { is_correlation }) = self.id {
            parts.push("id".to_owned());
            parts.extend(is_correlation.then(|| "correlation".to_owned()));
        }
        parts.extend(self.is_default.then(|| "default".to_owned()));
        // Last, as a separator may have any characters.
        if let Some(FacetIndex { separator }) = &self.facet {
            parts.push(match separator {
                Some(separator) => format!("facet={separator}"),
                None => "facet".to_owned(),
            });
        }
        parts.join(";")
    }

    /// The kinds that a text of [`ColumnIndex::to_metadata`] says; none of another text.
    pub fn from_metadata(metadata: &str) -> Option<ColumnIndex> {
        let mut index = ColumnIndex::default();
        let mut rest = metadata;
        while !rest.is_empty() {
            if let Some(separator) = rest.strip_prefix("facet=") {
                index.facet = Some(FacetIndex { separator: Some(separator.into()) });
                break;
            }
            let (part, after) = rest.split_once(';').unwrap_or((rest, ""));
            rest = after;
            match (part.split_once('=').unwrap_or((part, "")), &mut index.text) {
                (("text", ""), text) => *text = Some(TextIndex::default()),
                (("stem", name), Some(text)) => text.analyzer.stem = Some(language(name)?),
                (("fold", ""), Some(text)) => text.analyzer.fold_accents = true,
                (("split", ""), Some(text)) => text.analyzer.split_code = true,
                (("boost", boost), Some(text)) => text.boost = boost.parse().ok()?,
                (("no-positions", ""), Some(text)) => text.has_positions = false,
                (("id", ""), _) => index.id = Some(IdIndex::default()),
                (("correlation", ""), _) => index.id = Some(IdIndex { is_correlation: true }),
                (("default", ""), _) => index.is_default = true,
                (("facet", ""), _) => index.facet = Some(FacetIndex::default()),
                _ => return None,
            }
        }
        Some(index)
    }
}

/// The languages whose inflections are known, by their names in definitions.
pub const LANGUAGES: [(&str, Language); 18] = [
    ("arabic", Language::Arabic),
    ("danish", Language::Danish),
    ("dutch", Language::Dutch),
    ("english", Language::English),
    ("finnish", Language::Finnish),
    ("french", Language::French),
    ("german", Language::German),
    ("greek", Language::Greek),
    ("hungarian", Language::Hungarian),
    ("italian", Language::Italian),
    ("norwegian", Language::Norwegian),
    ("portuguese", Language::Portuguese),
    ("romanian", Language::Romanian),
    ("russian", Language::Russian),
    ("spanish", Language::Spanish),
    ("swedish", Language::Swedish),
    ("tamil", Language::Tamil),
    ("turkish", Language::Turkish),
];

/// The name of a language in definitions.
pub fn language_name(language: Language) -> &'static str {
    LANGUAGES.iter().find(|(_, known)| *known == language).map_or("english", |(name, _)| name)
}

/// The language of a name, in any case.
pub fn language(name: &str) -> Option<Language> {
    LANGUAGES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, language)| *language)
}

#[cfg(test)]
mod tests {
    use proptest::{option, prelude::*};

    use super::*;

    fn any_index() -> impl Strategy<Value = ColumnIndex> {
        let language = (0..LANGUAGES.len()).prop_map(|place| LANGUAGES[place].1);
        let text = (option::of(language), any::<bool>(), any::<bool>(), 1_u8..100, any::<bool>()).prop_map(
            |(stem, fold_accents, split_code, boost, has_positions)| TextIndex {
                analyzer: AnalyzerOptions { stem, fold_accents, split_code },
                boost: f32::from(boost) / 8.0,
                has_positions,
            },
        );
        let id = any::<bool>().prop_map(|is_correlation| IdIndex { is_correlation });
        let separator = option::of("[/;= a漢]{1,3}".prop_map(String::into_boxed_str));
        let facet = separator.prop_map(|separator| FacetIndex { separator });
        (option::of(text), option::of(id), option::of(facet), any::<bool>())
            .prop_map(|(text, id, facet, is_default)| ColumnIndex { text, id, facet, is_default })
    }

    proptest! {
        #[test]
        fn metadata_is_read_as_it_was_written(index in any_index()) {
            prop_assert_eq!(ColumnIndex::from_metadata(&index.to_metadata()), Some(index));
        }
    }

    #[test]
    fn foreign_metadata_is_no_definition() {
        for text in ["texts", "stem=english", "text;stem=klingon", "text;boost=heavy", "id=1"] {
            assert_eq!(ColumnIndex::from_metadata(text), None, "{text}");
        }
    }

    #[test]
    fn columns_are_default_where_nothing_else_is_declared() {
        let text = ColumnIndex { text: Some(TextIndex::default()), ..ColumnIndex::default() };
        let id = ColumnIndex { id: Some(IdIndex::default()), ..ColumnIndex::default() };
        let columns = vec![("message".into(), text), ("host".into(), id)];
        let mut definition = SearchDefinition { columns, ..SearchDefinition::default() };
        let defaults = |definition: &SearchDefinition| {
            ["message", "host", "other"].map(|name| definition.column(name).map(|index| index.is_default))
        };
        assert_eq!(defaults(&definition), [Some(true), Some(false), None]);
        definition.covers_all = true;
        assert_eq!(defaults(&definition), [Some(true), Some(false), Some(true)]);
        definition.defaults = vec!["other".into()];
        assert_eq!(defaults(&definition), [Some(false), Some(false), Some(true)]);
    }
}
