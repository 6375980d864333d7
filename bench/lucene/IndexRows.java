// Indexes generated rows with Lucene, as `crates/search/benches/index` does with tantivy and our own index: one thread, the same
// fields and tokens, positions, nothing stored, 128 MiB of memory, one segment in the end.
//
//     cargo bench -p swiftwater-search --bench index -- rows FOLDER
//     java -Xmx8g -cp lucene-core-10.6.0.jar bench/lucene/IndexRows.java FOLDER/logs.ndjson logs
//     java -Xmx8g -cp lucene-core-10.6.0.jar bench/lucene/IndexRows.java FOLDER/articles.ndjson articles
//
// `mvn dependency:copy -Dartifact=org.apache.lucene:lucene-core:10.6.0 -DoutputDirectory=.` fetches the library.

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.Tokenizer;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.FieldType;
import org.apache.lucene.document.StringField;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.index.IndexOptions;
import org.apache.lucene.index.IndexWriter;
import org.apache.lucene.index.IndexWriterConfig;
import org.apache.lucene.index.SerialMergeScheduler;
import org.apache.lucene.store.ByteBuffersDirectory;

public class IndexRows {
    static final int ROUNDS = 5;
    static final double MEMORY_MIB = 128;
    static final Map<String, List<String>> TEXTS = Map.of(
            "logs", List.of("message", "stack"),
            "articles", List.of("title", "contributor_username", "comment", "text"));
    static final Map<String, List<String>> IDS = Map.of(
            "logs", List.of("level", "service", "host", "trace_id", "span_id", "status"),
            "articles", List.of("sha1", "contributor_id", "model", "format"));

    public static void main(String[] arguments) throws IOException {
        String kind = arguments[1];
        Path path = Path.of(arguments[0]);
        var rates = new ArrayList<double[]>();
        for (int round = 0; round < ROUNDS; round++) {
            List<Document> documents = documents(path, kind);
            var directory = new ByteBuffersDirectory();
            long processor = processorNanos();
            long thread = ManagementFactory.getThreadMXBean().getCurrentThreadUserTime();
            long wall = System.nanoTime();
            index(documents, directory);
            double seconds = (System.nanoTime() - wall) / 1e9;
            double threadSeconds = (ManagementFactory.getThreadMXBean().getCurrentThreadUserTime() - thread) / 1e9;
            double processorSeconds = (processorNanos() - processor) / 1e9;
            int rows = documents.size();
            rates.add(new double[] {rows / threadSeconds, rows / processorSeconds, rows / seconds});
            if (round == 0) {
                report(directory, kind);
            }
        }
        String[] names = {"user time of the indexing thread", "processor time with JIT and GC", "wall"};
        for (int part = 0; part < names.length; part++) {
            int place = part;
            double[] sorted = rates.stream().mapToDouble(rate -> rate[place]).sorted().toArray();
            System.out.printf("%-34s %8.0f rows/s (%.0f to %.0f)%n", names[part], sorted[ROUNDS / 2], sorted[0], sorted[ROUNDS - 1]);
        }
    }

    static long processorNanos() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime();
    }

    static void index(List<Document> documents, ByteBuffersDirectory directory) throws IOException {
        var config = new IndexWriterConfig(new WordAnalyzer())
                .setRAMBufferSizeMB(MEMORY_MIB)
                .setMergeScheduler(new SerialMergeScheduler())
                .setUseCompoundFile(false);
        try (var writer = new IndexWriter(directory, config)) {
            for (Document document : documents) {
                writer.addDocument(document);
            }
            writer.forceMerge(1);
            writer.commit();
        }
    }

    static void report(ByteBuffersDirectory directory, String kind) throws IOException {
        long bytes = 0;
        for (String file : directory.listAll()) {
            bytes += directory.fileLength(file);
        }
        System.out.println(bytes + " bytes");
        try (var reader = DirectoryReader.open(directory)) {
            for (String text : TEXTS.get(kind)) {
                System.out.println("tokens of " + text + ": " + reader.getSumTotalTermFreq(text));
            }
        }
    }

    static List<Document> documents(Path path, String kind) throws IOException {
        var text = new FieldType();
        text.setIndexOptions(IndexOptions.DOCS_AND_FREQS_AND_POSITIONS);
        text.setTokenized(true);
        text.freeze();
        var documents = new ArrayList<Document>();
        try (Stream<String> lines = Files.lines(path)) {
            lines.forEach(line -> {
                Map<String, String> row = row(line);
                var document = new Document();
                for (String name : TEXTS.get(kind)) {
                    if (row.containsKey(name)) {
                        document.add(new Field(name, row.get(name), text));
                    }
                }
                for (String name : IDS.get(kind)) {
                    if (row.containsKey(name)) {
                        document.add(new StringField(name, row.get(name), Field.Store.NO));
                    }
                }
                documents.add(document);
            });
        }
        return documents;
    }

    /** The values of a flat JSON object; escapes are of one character, as the generator writes them. */
    static Map<String, String> row(String json) {
        var row = new HashMap<String, String>();
        String name = null;
        int at = 1;
        while (at < json.length()) {
            char c = json.charAt(at);
            if (c == ',' || c == ':' || c == '}') {
                at++;
                continue;
            }
            var value = new StringBuilder();
            if (c == '"') {
                for (at++; json.charAt(at) != '"'; at++) {
                    char next = json.charAt(at);
                    if (next == '\\') {
                        next = json.charAt(++at);
                        next = switch (next) {
                            case 'n' -> '\n';
                            case 't' -> '\t';
                            case 'u' -> throw new IllegalArgumentException("\\u in " + json);
                            default -> next;
                        };
                    }
                    value.append(next);
                }
                at++;
            } else {
                while (json.charAt(at) != ',' && json.charAt(at) != '}') {
                    value.append(json.charAt(at++));
                }
            }
            if (name == null) {
                name = value.toString();
            } else {
                row.put(name, value.toString());
                name = null;
            }
        }
        return row;
    }

    /** Runs of letters, marks and digits in small letters; of scripts without spaces, pairs and the last character. */
    static final class WordAnalyzer extends Analyzer {
        @Override
        protected TokenStreamComponents createComponents(String field) {
            return new TokenStreamComponents(new WordTokenizer());
        }
    }

    static final class WordTokenizer extends Tokenizer {
        private static final Set<Character.UnicodeScript> UNSPACED = Set.of(
                Character.UnicodeScript.HAN, Character.UnicodeScript.HIRAGANA, Character.UnicodeScript.KATAKANA,
                Character.UnicodeScript.THAI, Character.UnicodeScript.LAO, Character.UnicodeScript.KHMER,
                Character.UnicodeScript.MYANMAR);
        private final CharTermAttribute term = addAttribute(CharTermAttribute.class);
        private char[] text = new char[4096];
        private int length;
        private int at;

        @Override
        public void reset() throws IOException {
            super.reset();
            length = 0;
            at = 0;
            int read;
            while ((read = input.read(text, length, text.length - length)) > 0) {
                length += read;
                if (length == text.length) {
                    text = Arrays.copyOf(text, text.length * 2);
                }
            }
        }

        @Override
        public boolean incrementToken() {
            clearAttributes();
            while (at < length && !isWord(text[at])) {
                at++;
            }
            if (at == length) {
                return false;
            }
            if (isUnspaced(text[at])) {
                term.append(text[at]);
                if (++at < length && isWord(text[at]) && isUnspaced(text[at])) {
                    term.append(text[at]);
                }
                return true;
            }
            int start = at;
            while (at < length && isWord(text[at]) && !isUnspaced(text[at])) {
                at++;
            }
            term.copyBuffer(text, start, at - start);
            char[] buffer = term.buffer();
            for (int place = 0; place < at - start; place++) {
                buffer[place] = lower(buffer[place]);
            }
            return true;
        }

        private static char lower(char c) {
            if (c < 128) {
                return c >= 'A' && c <= 'Z' ? (char) (c + 32) : c;
            }
            return Character.toLowerCase(c);
        }

        private static boolean isWord(char c) {
            if (c < 128) {
                return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z';
            }
            return switch (Character.getType(c)) {
                case Character.NON_SPACING_MARK, Character.ENCLOSING_MARK, Character.COMBINING_SPACING_MARK,
                        Character.DECIMAL_DIGIT_NUMBER, Character.LETTER_NUMBER, Character.OTHER_NUMBER -> true;
                default -> Character.isLetter(c);
            };
        }

        private static boolean isUnspaced(char c) {
            return c >= 128 && (UNSPACED.contains(Character.UnicodeScript.of(c)) || c == 'ー');
        }
    }
}
