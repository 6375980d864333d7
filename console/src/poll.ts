/**
 * Reads something again and again: one read at a time, none while the page is hidden, slower after failures. Knows nothing of
 * pages or of HTTP; clock and timers are passed in.
 */

export interface Surroundings {
  now(): number;
  /** Runs `run` after `ms`; the result takes that back. */
  after(ms: number, run: () => void): () => void;
}

export interface Reading<T> {
  /** The newest data, also after failures. */
  data: T | null;
  /** When `data` was read. */
  at: number | null;
  /** Why the last read failed; null: it did not. */
  failure: unknown;
  /** Since when `data` is not current any more; null: it is current, or there is none. */
  staleSince: number | null;
}

/** The longest wait after a failure. */
export const BACK_OFF_MS_MAX = 5000;
/** The wait after the first failure; it doubles with each further one. */
export const BACK_OFF_MS = 500;

/** The wait before the next read, after `failures` failures in a row. */
export function waitMs(intervalMs: number, failures: number): number {
  if (failures === 0) return intervalMs;
  return Math.min(BACK_OFF_MS_MAX, BACK_OFF_MS * 2 ** Math.min(20, failures - 1));
}

export class Poller<T> {
  reading: Reading<T> = { data: null, at: null, failure: null, staleSince: null };
  private failures = 0;
  private abort: AbortController | null = null;
  private cancel: (() => void) | null = null;
  private shown = true;
  private closed = false;

  constructor(
    private readonly around: Surroundings,
    private readonly read: (signal: AbortSignal) => Promise<T>,
    private readonly intervalMs: number,
    private readonly changed: (reading: Reading<T>) => void,
  ) {}

  /** Reads now, unless a read is under way or the page is hidden. */
  now(): void {
    if (this.closed || !this.shown || this.abort !== null) return;
    this.cancel?.();
    this.cancel = null;
    const abort = new AbortController();
    this.abort = abort;
    this.read(abort.signal).then(
      (data) => this.finished(abort, { data, at: this.around.now(), failure: null, staleSince: null }, 0),
      (failure: unknown) => {
        const { data, at, staleSince } = this.reading;
        this.finished(abort, { data, at, failure, staleSince: staleSince ?? at }, this.failures + 1);
      },
    );
  }

  private finished(abort: AbortController, reading: Reading<T>, failures: number): void {
    if (this.abort !== abort) return;
    this.abort = null;
    this.failures = failures;
    this.reading = reading;
    this.changed(reading);
    if (this.closed || !this.shown || !Number.isFinite(this.intervalMs)) return;
    this.cancel = this.around.after(waitMs(this.intervalMs, failures), () => this.now());
  }

  /** The page is hidden or shown again. Shown again, it reads at once, unless it has read what is read only once. */
  show(shown: boolean): void {
    if (shown === this.shown) return;
    this.shown = shown;
    if (!shown) this.stop();
    else if (Number.isFinite(this.intervalMs) || this.reading.at === null) this.now();
  }

  private stop(): void {
    this.cancel?.();
    this.cancel = null;
    this.abort?.abort();
    this.abort = null;
  }

  close(): void {
    this.closed = true;
    this.stop();
  }
}
