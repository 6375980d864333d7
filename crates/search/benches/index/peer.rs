//! tantivy as it is used alone, with our analyzer.

use std::sync::Arc;

use arrow_array::{Array, cast::AsArray, types::Int64Type};
use swiftwater_text::{Analyzer, AnalyzerScratch};
use tantivy::{
    Directory, HasLen, Index, IndexSettings, IndexWriter, Searcher, TantivyDocument, Term,
    collector::Count,
    directory::RamDirectory,
    index::SegmentComponent,
    indexer::NoMergePolicy,
    query::{PhraseQuery, Query, TermQuery},
    schema::{Field, INDEXED, IndexRecordOption, Schema, TextFieldIndexing, TextOptions},
    tokenizer::{Token, TokenStream, Tokenizer},
};

use crate::rows::{Kind, Rows};

const TOKENIZER: &str = "ours";
/// The files of terms, postings, positions and lengths.
const COUNTED_FILES: [SegmentComponent; 4] = [
    SegmentComponent::Terms,
    SegmentComponent::Postings,
    SegmentComponent::Positions,
    SegmentComponent::FieldNorms,
];

/// Our analyzer as a tokenizer of tantivy.
#[derive(Default)]
struct AnalyzerTokenizer {
    analyzer: Arc<Analyzer>,
    scratch: AnalyzerScratch,
    text: String,
    /// The end of each token in `text`, and its position.
    tokens: Vec<(usize, u32)>,
    token: Token,
}

struct AnalyzerStream<'t> {
    tokenizer: &'t mut AnalyzerTokenizer,
    next: usize,
    start: usize,
}

impl Clone for AnalyzerTokenizer {
    fn clone(&self) -> AnalyzerTokenizer {
        AnalyzerTokenizer { analyzer: Arc::clone(&self.analyzer), ..AnalyzerTokenizer::default() }
    }
}

impl Tokenizer for AnalyzerTokenizer {
    type TokenStream<'t> = AnalyzerStream<'t>;

    fn token_stream<'t>(&'t mut self, text: &'t str) -> AnalyzerStream<'t> {
        self.text.clear();
        self.tokens.clear();
        let AnalyzerTokenizer { analyzer, scratch, text: out, tokens, .. } = self;
        analyzer.for_each_token(text, scratch, |token| {
            out.push_str(token.text);
            tokens.push((out.len(), token.position));
        });
        AnalyzerStream { tokenizer: self, next: 0, start: 0 }
    }
}

impl TokenStream for AnalyzerStream<'_> {
    fn advance(&mut self) -> bool {
        let AnalyzerTokenizer { text, tokens, token, .. } = &mut *self.tokenizer;
        let Some((end, position)) = tokens.get(self.next) else { return false };
        token.text.clear();
        token.text.push_str(&text[self.start..*end]);
        (token.position, token.position_length) = (*position as usize, 1);
        (self.start, self.next) = (*end, self.next + 1);
        true
    }

    fn token(&self) -> &Token {
        &self.tokenizer.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.tokenizer.token
    }
}

/// An index of one segment, in memory.
pub(crate) struct PeerIndex {
    index: Index,
    directory: RamDirectory,
    searcher: Searcher,
}

fn schema(rows: &Rows) -> Schema {
    let mut schema = Schema::builder();
    for (name, kind) in &rows.columns {
        let text = |tokenizer: &str, option, has_lengths| {
            let indexing = TextFieldIndexing::default()
                .set_tokenizer(tokenizer)
                .set_index_option(option)
                .set_fieldnorms(has_lengths);
            TextOptions::default().set_indexing_options(indexing)
        };
        match kind {
            Kind::Text => {
                schema.add_text_field(name, text(TOKENIZER, IndexRecordOption::WithFreqsAndPositions, true))
            }
            Kind::Id => schema.add_text_field(name, text("raw", IndexRecordOption::Basic, false)),
            Kind::Number => schema.add_i64_field(name, INDEXED),
        };
    }
    schema.build()
}

/// The documents of the rows.
pub(crate) fn documents(rows: &Rows) -> Vec<TantivyDocument> {
    let mut documents = Vec::with_capacity(rows.count);
    for batch in &rows.batches {
        for row in 0..batch.num_rows() {
            let mut document = TantivyDocument::default();
            for ((number, (_, kind)), array) in (0..).zip(&rows.columns).zip(batch.columns()) {
                let field = Field::from_field_id(number);
                match kind {
                    _ if array.is_null(row) => {}
                    Kind::Number => document.add_i64(field, array.as_primitive::<Int64Type>().value(row)),
                    _ => document.add_text(field, array.as_string_view().value(row)),
                }
            }
            documents.push(document);
        }
    }
    documents
}

impl PeerIndex {
    /// The index of some documents, built by one thread.
    pub(crate) fn build(rows: &Rows, documents: Vec<TantivyDocument>, memory_bytes: usize) -> PeerIndex {
        let directory = RamDirectory::create();
        let index = Index::create(directory.clone(), schema(rows), IndexSettings::default()).unwrap();
        index.tokenizers().register(TOKENIZER, AnalyzerTokenizer::default());
        let mut writer: IndexWriter = index.writer_with_num_threads(1, memory_bytes).unwrap();
        writer.set_merge_policy(Box::new(NoMergePolicy));
        for document in documents {
            writer.add_document(document).unwrap();
        }
        writer.commit().unwrap();
        let segments = index.searchable_segment_ids().unwrap();
        if segments.len() > 1 {
            writer.merge(&segments).wait().unwrap();
        }
        writer.wait_merging_threads().unwrap();
        let searcher = index.reader().unwrap().searcher();
        assert_eq!(searcher.segment_readers().len(), 1);
        PeerIndex { index, directory, searcher }
    }

    /// The bytes of terms, postings, positions and lengths.
    pub(crate) fn bytes(&self) -> usize {
        let mut bytes = 0;
        for segment in self.index.searchable_segment_metas().unwrap() {
            for part in COUNTED_FILES {
                bytes += self.directory.open_read(&segment.relative_path(part)).unwrap().len();
            }
        }
        bytes
    }

    /// The rows with these words one after the other.
    pub(crate) fn count(&self, column: &str, words: &[&str]) -> u64 {
        let field = self.index.schema().get_field(column).unwrap();
        let mut terms: Vec<Term> = words.iter().map(|word| Term::from_field_text(field, word)).collect();
        let query: Box<dyn Query> = match terms.len() {
            1 => Box::new(TermQuery::new(terms.remove(0), IndexRecordOption::Basic)),
            _ => Box::new(PhraseQuery::new(terms)),
        };
        self.searcher.search(&query, &Count).unwrap() as u64
    }
}
