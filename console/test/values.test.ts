import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { formatBytes, formatDuration, formatNumber, formatShort, formatTime, parseTime } from '../src/format.ts';
import { type Json, DEPTH_MAX, formatJson, parseJson } from '../src/json.ts';
import { cut, visible } from '../src/text.ts';

const json: fc.Arbitrary<Json> = fc.letrec((tie) => ({
  value: fc.oneof(
    { depthSize: 'small' },
    fc.constant(null),
    fc.boolean(),
    fc.double({ noNaN: true, noDefaultInfinity: true }).map((n) => (Object.is(n, -0) ? 0 : n)),
    fc.bigInt().filter((n) => !Number.isSafeInteger(Number(n))),
    fc.string({ unit: 'binary' }),
    fc.array(tie('value')),
    fc.array(fc.tuple(fc.oneof(fc.string({ unit: 'binary' }), fc.constant('__proto__'), fc.constant('constructor')), tie('value'))).map(ownObject),
  ),
})).value as fc.Arbitrary<Json>;

function ownObject(entries: Array<[string, unknown]>): Json {
  const object = {};
  for (const [name, value] of entries) Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
  return object as Json;
}

/** A whole double of 16 digits and more is written as an integer, so it comes back as a `bigint` of the same digits. */
const normal = (value: Json): Json => {
  if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value) && !/e/.test(String(value))) return BigInt(String(value));
  if (Array.isArray(value)) return value.map(normal);
  if (value !== null && typeof value === 'object') return ownObject(Object.keys(value).map((name) => [name, normal(value[name] as Json)]));
  return value;
};

test('json text read back is the value, with every digit of a whole number', () => {
  fc.assert(
    fc.property(json, fc.constantFrom(0, 2), (value, indent) => {
      assert.deepStrictEqual(parseJson(formatJson(value, indent)), normal(value));
    }),
  );
});

test('the own parser accepts what JSON.parse accepts and refuses what it refuses', () => {
  const fragments = fc.array(fc.constantFrom('{', '}', '[', ']', ',', ':', '"a"', '"\\u00e9"', '"\\x"', '1', '-0', '01', '1.5e3', '.5', 'true', 'nul', ' ', '\n', '"\n"', '""'), { maxLength: 9 });
  fc.assert(
    fc.property(fragments, (parts) => {
      // A long whole number before it makes sure that the own parser reads it.
      const text = parts.join('');
      const outcome = (run: () => unknown) => {
        try {
          return run();
        } catch (error) {
          assert.ok(error instanceof SyntaxError);
          return 'refused';
        }
      };
      const theirs = outcome(() => (JSON.parse(`[1, ${text}]`) as unknown[]).slice(1));
      const ours = outcome(() => (parseJson(`[12345678901234567890, ${text}]`) as unknown[]).slice(1));
      assert.deepStrictEqual(ours, theirs);
    }),
    { numRuns: 3000 },
  );
});

test('a whole number beyond 2^53 keeps its digits, a long fraction stays a number', () => {
  assert.deepStrictEqual(parseJson('{"a":9007199254740993,"b":"9007199254740993","c":0.12345678901234567}'), {
    a: 9007199254740993n,
    b: '9007199254740993',
    c: 0.12345678901234567,
  });
});

test('the name __proto__ is an own property and changes no prototype', () => {
  const value = parseJson('{"__proto__":{"x":12345678901234567890}}') as object;
  assert.ok(Object.hasOwn(value, '__proto__'));
  assert.equal(Object.getPrototypeOf(value), Object.prototype);
});

test('nesting beyond the limit is refused, not overflowed', () => {
  const deep = `${'['.repeat(DEPTH_MAX + 1)}12345678901234567890${']'.repeat(DEPTH_MAX + 1)}`;
  assert.throws(() => parseJson(deep), SyntaxError);
});

test('shown text has no hidden character and no lone surrogate', () => {
  const hostile = fc.string({ unit: fc.oneof(fc.integer({ min: 0, max: 0xffff }).map((c) => String.fromCharCode(c)), fc.constantFrom('\u202e', '\u0000', '\ud800', '\udc00', '\u200f', '😀')) });
  fc.assert(
    fc.property(hostile, (text) => {
      const shown = visible(text);
      assert.doesNotMatch(shown, /[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u200e\u200f\ufeff]/);
      assert.equal(shown, shown.toWellFormed?.() ?? shown);
      if (/^[\x20-\x7e]*$/.test(text)) assert.equal(shown, text);
    }),
  );
});

test('every control, every mark of direction and every lone surrogate is escaped, and no letter', () => {
  for (let code = 0; code <= 0xffff; code += 1) {
    const text = String.fromCharCode(code);
    const hidden = /[\p{Cc}\p{Cs}\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2064\u2066-\u206f\ufeff]/u.test(text);
    if (hidden) assert.match(visible(text), /^\\([ntrbf]|u[0-9a-f]{4})$/, code.toString(16));
    else if (/[\p{L}\p{N}\p{P}\p{S}]/u.test(text)) assert.equal(visible(text), text);
  }
  assert.equal(visible('😀'), '😀');
});

test('cut text is a prefix and splits no character', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), fc.nat(30), (text, length) => {
      const short = cut(text, length);
      assert.ok(text.startsWith(short) && short.length <= Math.max(length, 0));
      assert.ok(short.length >= Math.min(text.length, length) - 1);
      assert.doesNotMatch(short, /[\ud800-\udbff]$/);
    }),
  );
});

test('numbers, sizes and durations are short and named', () => {
  assert.equal(formatNumber(1234567.891, 'en'), '1,234,567.891');
  assert.equal(formatNumber(40.639751, 'en', 6), '40.639751');
  assert.equal(formatNumber(1234567, 'de'), '1.234.567');
  assert.equal(formatNumber(9007199254740993n, 'en'), '9,007,199,254,740,993');
  assert.equal(formatNumber(0.000123456, 'en'), '0.000123456');
  assert.equal(formatNumber(0, 'en'), '0');
  assert.equal(formatNumber(-Infinity, 'en'), '-∞');
  assert.equal(formatShort(1234, 'en'), '1.2k');
  assert.equal(formatShort(999_999, 'en'), '1M');
  assert.equal(formatBytes(1536, 'en'), '1.5 KiB');
  assert.equal(formatDuration(850, 'en'), '850 ms');
  assert.equal(formatDuration(90_000, 'en'), '2 min');
});

test('a time is shown with its zone, and RFC 3339 text is read', () => {
  const ms = Date.parse('2026-11-30T16:22:25.103Z');
  assert.equal(formatTime(ms, 'UTC'), '2026-11-30 16:22:25.103 UTC');
  assert.match(formatTime(ms, 'America/New_York'), /^2026-11-30 11:22:25\.103 GMT-5$/);
  assert.equal(parseTime('2026-11-30T16:22:25.103Z'), ms);
  assert.equal(parseTime('2026-11-30'), null);
  assert.equal(parseTime('2026-13-45T99:00:00Z'), null);
  assert.equal(formatTime(Number.NaN, 'UTC'), 'invalid time');
});
