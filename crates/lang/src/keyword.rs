//! The keywords of the language: which are reserved, and which one a misspelt word probably was.

use crate::Dialect;

macro_rules! keywords {
    ($($variant:ident $text:literal $bullet:literal $native:literal,)*) => {
        /// A word with a meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(crate) enum Keyword { $($variant,)* }

        impl Keyword {
            /// All words.
            pub(crate) const ALL: &[Keyword] = &[$(Keyword::$variant,)*];

            /// The word, in capitals.
            pub(crate) fn text(self) -> &'static str {
                match self { $(Keyword::$variant => $text,)* }
            }

            /// True if the word must be quoted to be a name.
            pub(crate) fn is_reserved(self, dialect: Dialect) -> bool {
                match self {
                    $(Keyword::$variant => match dialect { Dialect::Bullet => $bullet, Dialect::Native => $native },)*
                }
            }
        }
    };
}

// The word; whether Bullet reserves it; whether the native dialect does.
keywords! {
    Select "SELECT" true true,
    Distinct "DISTINCT" true true,
    From "FROM" true true,
    Where "WHERE" true true,
    Group "GROUP" true true,
    By "BY" true true,
    Having "HAVING" true true,
    Order "ORDER" true true,
    As "AS" true true,
    And "AND" true true,
    Or "OR" true true,
    Xor "XOR" true true,
    Not "NOT" true true,
    In "IN" true true,
    Is "IS" true true,
    Null "NULL" true true,
    True "TRUE" true true,
    False "FALSE" true true,
    Between "BETWEEN" true true,
    RLike "RLIKE" true true,
    Like "LIKE" true true,
    Any "ANY" true true,
    Lateral "LATERAL" true true,
    View "VIEW" true false,
    Outer "OUTER" true false,
    Explode "EXPLODE" true false,
    Case "CASE" false true,
    When "WHEN" false true,
    Then "THEN" false true,
    Else "ELSE" false true,
    End "END" false false,
    All "ALL" false false,
    Asc "ASC" false false,
    Desc "DESC" false false,
    First "FIRST" false false,
    Last "LAST" false false,
    Limit "LIMIT" false false,
    Stream "STREAM" false false,
    Time "TIME" false false,
    Record "RECORD" false false,
    Event "EVENT" false false,
    Windowing "WINDOWING" false false,
    Every "EVERY" false false,
    Tumbling "TUMBLING" false false,
    Session "SESSION" false false,
    Quantile "QUANTILE" false false,
    Freq "FREQ" false false,
    CumFreq "CUMFREQ" false false,
    Top "TOP" false false,
    Linear "LINEAR" false false,
    Region "REGION" false false,
    Manual "MANUAL" false false,
    Count "COUNT" false false,
    Sum "SUM" false false,
    Avg "AVG" false false,
    Min "MIN" false false,
    Max "MAX" false false,
    Now "NOW" false false,
    Explain "EXPLAIN" false false,
    Analyze "ANALYZE" false false,
    Sample "SAMPLE" false false,
    Interval "INTERVAL" false false,
    Cast "CAST" true false,
    SizeIs "SIZEIS" true false,
    SizeOf "SIZEOF" true true,
    ContainsKey "CONTAINSKEY" true false,
    ContainsValue "CONTAINSVALUE" true false,
    Filter "FILTER" true false,
    If "IF" true false,
    Coalesce "COALESCE" false false,
    Search "SEARCH" false false,
    Abs "ABS" true false,
    Trim "TRIM" true false,
    Lower "LOWER" true false,
    Upper "UPPER" true false,
    Substring "SUBSTRING" true false,
    Substr "SUBSTR" true false,
    UnixTimestamp "UNIXTIMESTAMP" true false,
    Hash "HASH" true false,
    StringType "STRING" true false,
    BooleanType "BOOLEAN" true false,
    IntegerType "INTEGER" true false,
    LongType "LONG" true false,
    FloatType "FLOAT" true false,
    DoubleType "DOUBLE" true false,
    MapType "MAP" true false,
    ListType "LIST" true false,
}

impl Keyword {
    /// The keyword that a word spells, in any letter case.
    pub(crate) fn of(word: &str) -> Option<Keyword> {
        // The longest word has 13 letters; most names of fields are sorted out by their length or first letter.
        if word.len() > 13 {
            return None;
        }
        Keyword::ALL.iter().copied().find(|keyword| keyword.text().eq_ignore_ascii_case(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_in_any_case() {
        assert_eq!(Keyword::of("select"), Some(Keyword::Select));
        assert_eq!(Keyword::of("ContainsValue"), Some(Keyword::ContainsValue));
        assert_eq!(Keyword::of("UNIXTIMESTAMP"), Some(Keyword::UnixTimestamp));
        assert_eq!(Keyword::of("selects"), None);
        assert!(Keyword::ALL.iter().all(|keyword| Keyword::of(keyword.text()) == Some(*keyword)));
    }
}
