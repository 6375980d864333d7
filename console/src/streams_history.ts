/**
 * Rates of streams over the last minutes, second by second. Pure.
 *
 * Begins with the server's history of its counters, goes on with each status. A counter that falls (the server was restarted) and a
 * second without a value leave a hole.
 */
import { type Json } from './json.ts';
import { isObject } from './protocol.ts';

export const SECONDS = 900;

export class Rates {
  /** Events a second of each stream, oldest first; the last is second `end`. */
  private readonly curves = new Map<string, Array<number | null>>();
  private end: number | null = null;

  /** The curve of a stream, `SECONDS` long at most. */
  of(stream: string): Array<number | null> {
    return this.curves.get(stream) ?? [];
  }

  /** Takes in the answer of `GET /v1/metrics/history`. */
  begin(data: Json): void {
    if (!isObject(data) || !Array.isArray(data.families) || typeof data.now !== 'string') return;
    const interval = typeof data.interval_ms === 'number' && data.interval_ms > 0 ? data.interval_ms : 1000;
    const now = Date.parse(data.now);
    if (Number.isNaN(now)) return;
    this.end = Math.floor(now / 1000);
    for (const family of data.families) {
      if (!isObject(family) || family.name !== 'swiftwater_stream_events_total' || !isObject(family.labels)) continue;
      const stream = family.labels.stream;
      if (typeof stream !== 'string' || !Array.isArray(family.values)) continue;
      this.curves.set(stream, ratesOf(family.values, interval).slice(-SECONDS));
    }
  }

  /** Takes in the rates of now. */
  add(at: number, streams: ReadonlyArray<{ name: string; eventsPerSecond: number }>): void {
    const second = Math.floor(at / 1000);
    const steps = this.end === null ? 1 : Math.min(SECONDS, second - this.end);
    if (steps <= 0) return;
    this.end = second;
    for (const curve of this.curves.values()) for (let i = 1; i < steps; i += 1) curve.push(null);
    const named = new Set<string>();
    for (const { name, eventsPerSecond } of streams) {
      named.add(name);
      const curve = this.curves.get(name) ?? [];
      // A single missed second is not a hole.
      if (steps === 2 && curve.length > 0) curve[curve.length - 1] = eventsPerSecond;
      curve.push(eventsPerSecond);
      if (curve.length > SECONDS) curve.splice(0, curve.length - SECONDS);
      this.curves.set(name, curve);
    }
    for (const name of this.curves.keys()) if (!named.has(name)) this.curves.delete(name);
  }
}

/** Differences of a counter, a second each; null where a value is missing or the counter fell. */
export function ratesOf(values: readonly Json[], intervalMs: number): Array<number | null> {
  const rates: Array<number | null> = [];
  for (let i = 1; i < values.length; i += 1) {
    const [before, now] = [values[i - 1], values[i]];
    const known = typeof before === 'number' && typeof now === 'number' && now >= before;
    rates.push(known ? ((now - before) * 1000) / intervalMs : null);
  }
  return rates;
}
