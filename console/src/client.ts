/**
 * The page's side of the worker: starts it, sends it what the reader does, draws its pictures.
 *
 * Of each result the newest picture wins; it is handed on in an animation frame, and only then the worker may send the next. A
 * hidden tab has no frames, so it gets no pictures.
 */
import { signal } from '@preact/signals';
import type { ConnectionState } from './connection.ts';
import type { Picture } from './picture.ts';
import type { FromWorker, StreamFacts, ToWorker } from './wire.ts';

export const connection = signal<ConnectionState | null>(null);
/** The streams, and the server's time of this list. */
export const streams = signal<{ at: number; streams: StreamFacts[] } | null>(null);

/** The address of the document, which all addresses of the server are relative to. */
export const documentBase = new URL('.', location.href.split(/[?#]/)[0]).href;

type Request = Extract<ToWorker, { request: number }>;
type Distribute<T> = T extends unknown ? Omit<T, 'request'> : never;

const painters = new Map<number, (picture: Picture) => void>();
const waiting = new Map<number, Picture>();
const answers = new Map<number, (parts: string[] | null) => void>();
let frame = 0;
let requests = 0;
let worker: Worker | null = null;

export function start(assets: string): void {
  const address = new URL(`${assets}/worker.js`, documentBase).href;
  worker = new Worker(trusted(address), { name: 'swiftwater' });
  worker.onmessage = (event: MessageEvent<FromWorker>) => received(event.data);
  post({ do: 'begin', base: documentBase });
}

interface TrustedPolicy {
  createScriptURL(address: string): unknown;
}
interface TrustedFactory {
  createPolicy(name: string, rules: { createScriptURL(address: string): string }): TrustedPolicy;
}

/** The worker's address for a page that requires trusted types; the only policy of the page, for this one address. */
function trusted(address: string): string {
  const factory = (window as { trustedTypes?: TrustedFactory }).trustedTypes;
  if (factory === undefined) return address;
  const policy = factory.createPolicy('swiftwater-worker', {
    createScriptURL: (asked) => {
      if (asked !== address) throw new TypeError('no other script may be loaded');
      return asked;
    },
  });
  return policy.createScriptURL(address) as string;
}

export function post(message: ToWorker): void {
  worker?.postMessage(message);
}

/** Asks the worker for text; null where it does not have it any more. */
export function request(message: Distribute<Request>): Promise<string[] | null> {
  const number = (requests += 1);
  return new Promise((resolve) => {
    answers.set(number, resolve);
    post({ ...message, request: number } as Request);
  });
}

/** Calls `paint` with each picture of the result that is to be drawn. The result ends it. */
export function paintWith(result: number, paint: (picture: Picture) => void): () => void {
  painters.set(result, paint);
  return () => {
    painters.delete(result);
    waiting.delete(result);
  };
}

function received(message: FromWorker): void {
  switch (message.is) {
    case 'connection':
      connection.value = message.state;
      break;
    case 'streams':
      streams.value = { at: message.now ?? Date.now(), streams: message.streams };
      break;
    case 'answer':
      answers.get(message.request)?.(message.parts);
      answers.delete(message.request);
      break;
    case 'picture':
      waiting.set(message.result, message.picture);
      if (frame === 0) frame = requestAnimationFrame(draw);
      break;
  }
}

function draw(): void {
  frame = 0;
  for (const [result, picture] of waiting) {
    waiting.delete(result);
    painters.get(result)?.(picture);
    post({ do: 'drawn', result });
  }
}

/** The clock of the server, in milliseconds since 1970. */
export function serverNow(): number {
  return Date.now() + (connection.value?.clockAheadMs ?? 0);
}

/** The JSON answer of a plain call below the document's address. */
export async function getText(path: string, signal?: AbortSignal): Promise<string> {
  const answer = await fetch(new URL(path, documentBase), signal === undefined ? {} : { signal });
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.text();
}
