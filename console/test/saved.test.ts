import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type State, readFragment, writeFragment } from '../src/fragment.ts';
import { nameFault, readSaved, readSavedPage, savedPage, savedPath } from '../src/saved_object.ts';
import { readRef } from '../src/store.ts';

const text = fc.string({ unit: 'grapheme', minLength: 1 });
const odd = fc.oneof(text, fc.constantFrom('a/b', '%2F', '#?&=', 'a b+c', '__proto__', 'saved', 's', '..a'));

test('a saved query and a short link come back from their addresses', () => {
  fc.assert(
    fc.property(odd, (name) => {
      const saved: State = { page: 'ask', saved: name };
      assert.deepEqual(readFragment(writeFragment(saved)), saved);
      const link: State = { page: 'home', link: name };
      if (nameFault(name) === null) assert.deepEqual(readFragment(writeFragment(link)), link);
    }),
  );
  assert.equal(writeFragment({ page: 'ask', saved: 'a/b' }), '#/ask/saved/a%2Fb');
  assert.equal(writeFragment({ page: 'home', link: 'a1b2c3d4e5' }), '#/s/a1b2c3d4e5');
  assert.deepEqual(['#/s/', '#/s', '#/s/..', '#/s/%'].map(readFragment), new Array(4).fill({ page: 'home' }));
  assert.deepEqual(readFragment('#/ask/saved/'), { page: 'ask' });
  assert.deepEqual(readFragment('#/ask/saved/%'), { page: 'ask' });
});

test('a name stays one segment of its path, and a prefix one parameter', () => {
  fc.assert(
    fc.property(odd, fc.option(odd), (name, after) => {
      const address = new URL(savedPath(name), 'http://h/deep/');
      if (nameFault(name) === null) {
        assert.ok(address.pathname.startsWith('/deep/v1/saved/queries/'));
        assert.equal(decodeURIComponent(address.pathname.slice('/deep/v1/saved/queries/'.length)), name);
      }
      const list = new URL(savedPage(name, after, 50), 'http://h/');
      assert.equal(list.pathname, '/v1/saved/queries');
      assert.equal(list.searchParams.get('prefix'), name);
      assert.equal(list.searchParams.get('after'), after);
    }),
  );
  assert.deepEqual(['', '.', '..'].map((name) => nameFault(name) === null), [false, false, false]);
});

test('answers are read, and parts of another shape are left out', () => {
  const facts = { kind: 'queries', name: 'busy', comment: null, revision: 7, created: '2026-11-30T09:00:00Z', changed: '2026-11-30T09:00:01Z', bytes: 5, owner: null, title: null };
  const read = { name: 'busy', comment: null, revision: 7, changed: Date.UTC(2026, 10, 30, 9, 0, 1) };
  assert.deepEqual(readSavedPage({ objects: [facts, { name: 5 }, null, { ...facts, revision: '7' }], next: 'busy', kept: false }), { objects: [read], next: 'busy', kept: false });
  assert.deepEqual(readSavedPage([]), { objects: [], next: null, kept: true });
  assert.deepEqual(readSaved({ ...facts, content: 'a\r\nb', dialect: 'bullet', kept: true }), { ...read, content: 'a\nb', dialect: 'bullet', kept: true });
  assert.equal(readSaved({ ...facts, content: { version: 1 } }), null);
  assert.deepEqual(readRef({ name: 'a', revision: 1, text: 't', comment: 5 }), { name: 'a', revision: 1, text: 't', dialect: 'native', comment: null, kept: true });
  assert.deepEqual([undefined, null, 5, { name: 'a' }].map(readRef), [null, null, null, null]);
});
