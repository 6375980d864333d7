import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { BACK_OFF_MS_MAX, Poller, type Reading, waitMs } from '../src/poll.ts';

test('the wait after failures rises to its limit and is the interval after a success', () => {
  fc.assert(
    fc.property(fc.integer({ min: 100, max: 60_000 }), fc.nat(2000), (interval, failures) => {
      const wait = waitMs(interval, failures);
      if (failures === 0) assert.equal(wait, interval);
      else assert.ok(wait > 0 && wait <= BACK_OFF_MS_MAX && wait <= waitMs(interval, failures + 1));
    }),
  );
});

test('reads never overlap, none happens while hidden or closed, and the last data stays', async () => {
  const step = fc.constantFrom('good', 'bad', 'timer', 'hide', 'show', 'now');
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      let clock = 0;
      let timer: (() => void) | null = null;
      let reads = 0;
      const open = new Set<{ good(): void; bad(): void }>();
      let last: Reading<number> | null = null;
      const around = {
        now: () => clock,
        after: (_: number, run: () => void) => {
          timer = run;
          return () => {
            timer = null;
          };
        },
      };
      const poller = new Poller<number>(
        around,
        (signal) =>
          new Promise((resolve, reject) => {
            const read = { good: () => (open.delete(read), resolve((reads += 1))), bad: () => (open.delete(read), reject(new Error('away'))) };
            open.add(read);
            signal.addEventListener('abort', () => read.bad());
          }),
        1000,
        (reading) => {
          last = reading;
        },
      );
      let hidden = false;
      poller.now();
      for (const what of steps) {
        clock += 1;
        const [current] = open;
        if (what === 'good') current?.good();
        else if (what === 'bad') current?.bad();
        else if (what === 'timer') {
          const run: (() => void) | null = timer;
          timer = null;
          (run as (() => void) | null)?.();
        } else if (what === 'now') poller.now();
        else {
          hidden = what === 'hide';
          poller.show(!hidden);
        }
        await new Promise((resolve) => setImmediate(resolve));
        assert.ok(open.size <= 1);
        if (hidden) assert.equal(open.size, 0);
        else assert.ok(open.size === 1 || timer !== null, 'it goes on');
        const reading = last as Reading<number> | null;
        if (reading !== null && reads > 0) assert.equal(reading.data, reads);
        if (reading !== null) assert.equal(reading.staleSince !== null, reading.failure !== null && reading.data !== null);
      }
      poller.close();
      await new Promise((resolve) => setImmediate(resolve));
      assert.equal(open.size, 0);
      assert.equal(timer, null);
    }),
    { numRuns: 60 },
  );
});
