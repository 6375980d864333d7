import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { callAround, nameOf, streamOf, tokensOf } from '../src/bql.ts';
import { completeBody, insertion, isOneWord, isPromising, matching, readFunctions, readOptions } from '../src/completion.ts';
import { quoteName } from '../src/examples.ts';
import { charactersBefore, endOfToken, offsetAfter, offsetOf, readPlace } from '../src/places.ts';
import { readProblem } from '../src/protocol.ts';

const anyText = fc.string({ unit: 'binary', maxLength: 60 });

test('characters and units are each other’s inverse', () => {
  fc.assert(
    fc.property(anyText, (text) => {
      const characters = [...text];
      for (let count = 0; count <= characters.length; count += 1) {
        const offset = offsetAfter(text, count);
        assert.equal(offset, characters.slice(0, count).join('').length);
        assert.equal(charactersBefore(text, offset), count);
      }
    }),
  );
});

test('a line and a column are the offset of that character', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: fc.constantFrom('a', '😀', 'é', ' ', '\r', '"'), maxLength: 6 }), { minLength: 1, maxLength: 5 }), (lines) => {
      const text = lines.join('\n');
      let start = 0;
      lines.forEach((line, i) => {
        const characters = [...line];
        characters.forEach((_, at) => assert.equal(offsetOf(text, i + 1, at + 1), start + characters.slice(0, at).join('').length));
        assert.equal(offsetOf(text, i + 1, 1000), start + line.length);
        start += line.length + 1;
      });
      assert.equal(offsetOf(text, lines.length + 1, 1), text.length);
    }),
  );
  const text = "SELECT '😀😀' FRM s";
  assert.equal(text.slice(offsetOf(text, 1, 13), endOfToken(text, offsetOf(text, 1, 13))), 'FRM');
  assert.equal(endOfToken('a\nb', 1), 1);
  assert.equal(endOfToken('😀', 0), 2);
});

test('a warning has its place at its start, or none', () => {
  assert.deepEqual(readPlace('3:14: no field `a`'), { line: 3, column: 14, text: 'no field `a`' });
  assert.deepEqual(readPlace('no field 3:14: `a`'), { text: 'no field 3:14: `a`' });
});

test('the tokens of a text cover it', () => {
  const piece = fc.constantFrom('SELECT', ' ', '\n', "'it''s'", "'", '"a""b"', '"', '-- x', '/* y */', '/*', '$1', '1.5e3', '.5', '5L', 'ä_1', '(', '*', '||', '😀', '\ud800');
  fc.assert(
    fc.property(fc.array(piece).map((pieces) => pieces.join('')), (text) => {
      let at = 0;
      for (const token of tokensOf(text)) {
        assert.equal(token.from, at);
        assert.ok(token.to > token.from);
        at = token.to;
      }
      assert.equal(at, text.length);
    }),
  );
  assert.deepEqual(tokensOf('/* open').map(({ kind }) => kind), ['unclosed']);
  const name = tokensOf('"a""b"')[0];
  assert.equal(name === undefined ? '' : nameOf('"a""b"', name), 'a"b');
});

test('the stream of a text is that of FROM STREAM, and nothing in strings or comments', () => {
  const check = (text: string, expected: string | null | undefined) => assert.equal(streamOf(text), expected, text);
  check('SELECT * FROM STREAM(flights, MAX, TIME)', 'flights');
  check('select * from stream ( "a ""b" )', 'a "b');
  check('SELECT * FROM STREAM()', null);
  check("SELECT 'FROM STREAM(a)' /* FROM STREAM(b) */ FROM -- x\nSTREAM(c)", 'c');
  check('SELECT * FROM STREAM(', undefined);
  check('SELECT * FROM STREAM(fl', undefined);
  check('', undefined);
  check('{"FROM STREAM(a)": 1}', undefined);
  fc.assert(fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), (name) => check(`SELECT a FROM STREAM(${quoteName(name)})`, name)));
});

test('the function at the cursor is the one it is on, or the innermost call around it', () => {
  const check = (marked: string, expected: string | null) => assert.equal(callAround(marked.replace('|', ''), marked.indexOf('|')), expected, marked);
  check('SELECT A|VG(x)', 'AVG');
  check('SELECT AVG(x + |y)', 'AVG');
  check('SELECT AVG(ABS(x), |y)', 'AVG');
  check('SELECT AVG(abs(x|), y)', 'ABS');
  check("SELECT AVG(')', |y)", 'AVG');
  check('SELECT AVG((x|))', 'AVG');
  check('SELECT AVG(x) |', null);
  check('SELECT avg| FROM', null);
  check('{"a": "AVG(|"}', null);
});

test('places of completions count characters', () => {
  const document = "SELECT '😀' , ca FROM";
  const cursor = document.indexOf('ca') + 2;
  assert.deepEqual(completeBody(document, cursor, 'native'), { text: document, cursor: cursor - 1, dialect: 'native' });
  const read = readOptions({ from: cursor - 3, to: cursor - 1, options: [{ label: 'carrier', kind: 'path', insert: 'carrier', type: 5 }, { label: 1 }, 'x', { label: 'b', kind: '__proto__', insert: 'b' }] }, document, cursor);
  assert.equal(document.slice(read?.from, read?.to), 'ca');
  assert.deepEqual(read?.options.map(({ label, kind, type }) => [label, kind, type]), [['carrier', 'path', ''], ['b', 'keyword', '']]);
  assert.equal(readOptions({ from: 5, to: 2, options: [] }, document, cursor), null);
  assert.equal(readOptions('x', document, cursor), null);
});

test('options that begin with what is typed are first', () => {
  const option = (label: string, insert = label) => ({ label, insert, kind: 'path', type: '', detail: '', doc: '' });
  const labels = (typed: string, ...options: ReturnType<typeof option>[]) => matching(options, typed).map(({ label }) => label);
  assert.deepEqual(labels('AR', option('carrier'), option('arrival'), option('x')), ['arrival', 'carrier']);
  assert.deepEqual(labels("'u", option('UA', "'UA'"), option('AA', "'AA'")), ['UA']);
  assert.deepEqual(labels('', option('b'), option('a')), ['b', 'a']);
  assert.ok(isOneWord('abc') && isOneWord("'a b") && !isOneWord('a b') && !isOneWord("'a'"));
  assert.ok(isPromising('SELECT c') && isPromising('a.') && isPromising('a, ') && isPromising('WHERE ') && !isPromising('a ') && !isPromising('5 ') && !isPromising(''));
});

test('brackets and quotes of a completion are closed once', () => {
  const check = (marked: string, insert: string, expected: string) => {
    const [before = '', replaced = '', after = ''] = marked.split('|');
    const document = before + replaced + after;
    const change = insertion(document, before.length, before.length + replaced.length, insert);
    const text = document.slice(0, change.from) + change.insert + document.slice(change.to);
    assert.equal(`${text.slice(0, change.cursor)}|${text.slice(change.cursor)}`, expected);
  };
  check('SELECT |co| FROM', 'COUNT(', 'SELECT COUNT(|) FROM');
  check('SELECT |co|(*)', 'COUNT(', 'SELECT COUNT(|*)');
  check('ABS(|co|)', 'COUNT(', 'ABS(COUNT(|)');
  check("a = |'U|'", "'UA'", "a = 'UA'|");
  check("a = |'U'|", "'UA'", "a = 'UA'|");
  check('a = |U|', "'UA'", "a = 'UA'|");
});

test('functions and several faults are read', () => {
  const functions = readFunctions({ functions: [{ name: 'avg', kind: 'aggregate', signatures: ['AVG(value)', 5], doc: 'd' }, { kind: 'x' }, null] });
  assert.deepEqual(functions.get('AVG'), { name: 'avg', kind: 'aggregate', signatures: ['AVG(value)'], returns: '', doc: 'd' });
  assert.equal(readFunctions(null).size, 0);
  const problem = readProblem({ title: 't', status: 400, errors: [{ message: 'a', line: 1, column: 2, hint: 'h' }, { message: 'b', path: null }, {}] });
  assert.deepEqual(problem.errors, [{ message: 'a', line: 1, column: 2, hint: 'h' }, { message: 'b' }]);
});
