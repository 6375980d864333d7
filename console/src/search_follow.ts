/** The hits of a search as they come: one answer that goes on, taken up behind its last event after a break or while hidden. */
import { useEffect, useState } from 'preact/hooks';
import { parseJson } from './json.ts';
import { readLines } from './ndjson.ts';
import { openLines, problemOfError } from './objects.ts';
import { waitMs } from './poll.ts';
import { type Problem, isObject } from './protocol.ts';
import { type Hit, type SearchState, followCall, readHit } from './search_state.ts';

/** The hits that the page shows; the oldest leave first. */
export const FOLLOWED_MAX = 100;
const DRAW_MS = 500;

export interface Followed {
  /** The newest first. */
  hits: Hit[];
  /** Hits that came since it began. */
  came: number;
  /** Events that were deleted before they were searched. */
  lost: number;
  problem: Problem | null;
  staleSince: number | null;
}

const NOTHING: Followed = { hits: [], came: 0, lost: 0, problem: null, staleSince: null };

/** Resolves when the page is visible; rejects when `signal` aborts. */
export function whenVisible(signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener('visibilitychange', look);
      signal.removeEventListener('abort', look);
      if (signal.aborted) reject(new DOMException('ended', 'AbortError'));
      else resolve();
    };
    document.addEventListener('visibilitychange', look);
    signal.addEventListener('abort', look);
    look();
  });
}

/** Follows `state`; null follows nothing. Once `stopped`, the hits stay and no more come. */
export function useFollow(state: SearchState | null, stopped: boolean): Followed {
  const [shown, setShown] = useState<Followed>(NOTHING);
  useEffect(() => {
    if (stopped) return;
    setShown(NOTHING);
    if (state === null) return;
    const over = new AbortController();
    let now = NOTHING;
    /** Hits that came since the last drawing, the newest last. */
    let fresh: Hit[] = [];
    let position: string | null = null;
    let drawing: ReturnType<typeof setTimeout> | undefined;
    const change = (to: Partial<Followed>) => {
      now = { ...now, ...to };
      drawing ??= setTimeout(() => {
        drawing = undefined;
        now = { ...now, hits: [...fresh.reverse(), ...now.hits].slice(0, FOLLOWED_MAX) };
        fresh = [];
        setShown(now);
      }, DRAW_MS);
    };
    const line = (text: string) => {
      const data = parseJson(text);
      if (!isObject(data)) return;
      if (typeof data.position === 'string') position = data.position;
      if (typeof data.error === 'string') throw new Error(data.error);
      if (typeof data.lost === 'number') change({ lost: now.lost + data.lost });
      const hit = readHit(data);
      if (hit === null) return;
      fresh.push(hit);
      if (fresh.length > 2 * FOLLOWED_MAX) fresh = fresh.slice(-FOLLOWED_MAX);
      change({ came: now.came + 1 });
    };
    const follow = async () => {
      for (let failures = 0; !over.signal.aborted; ) {
        const connection = new AbortController();
        const stop = () => connection.abort();
        const hidden = () => document.hidden && stop();
        try {
          await whenVisible(over.signal);
          over.signal.addEventListener('abort', stop);
          document.addEventListener('visibilitychange', hidden);
          const body = await openLines(followCall(state), position === null ? {} : { 'last-event-id': position }, connection.signal);
          failures = 0;
          // Without a place to go on from, the answer begins anew.
          if (position === null) fresh = [];
          change(position === null ? { hits: [], problem: null, staleSince: null } : { problem: null, staleSince: null });
          await readLines(body, { line });
          throw new Error('The server ended the answer.');
        } catch (error) {
          connection.abort();
          if (over.signal.aborted) return;
          if (!document.hidden) {
            failures += 1;
            const problem = problemOfError(error);
            change({ problem: problem.status === 0 ? { ...problem, detail: error instanceof Error && problem.title.startsWith('The answer') ? error.message : problem.title } : problem, staleSince: now.staleSince ?? Date.now() });
            // What the server refuses is not asked again.
            if (problem.status >= 400 && problem.status < 500 && problem.status !== 429) return;
            await new Promise((resolve) => setTimeout(resolve, waitMs(1000, failures)));
          }
        } finally {
          over.signal.removeEventListener('abort', stop);
          document.removeEventListener('visibilitychange', hidden);
        }
      }
    };
    void follow();
    return () => {
      over.abort();
      clearTimeout(drawing);
    };
  }, [state, stopped]);
  return shown;
}
