/**
 * Unsaved changes of dashboards, in a database of this browser: one draft a dashboard, by its name.
 *
 * If there is no IndexedDB, drafts last until the reload. Limit: `DRAFTS_MAX`; the oldest leave first.
 */
import type { Json } from '../json.ts';

export interface Draft {
  name: string;
  /** The saved revision that the changes began with. */
  revision: number;
  content: Json;
  /** Milliseconds since 1970. */
  at: number;
}

const NAME = 'swiftwater-dashboards';
const DRAFTS_MAX = 40;
const inMemory = new Map<string, Draft>();
let opening: Promise<IDBDatabase | null> | null = null;

function database(): Promise<IDBDatabase | null> {
  opening ??= new Promise((resolve) => {
    try {
      const request = indexedDB.open(NAME, 1);
      request.onupgradeneeded = () => request.result.createObjectStore('drafts', { keyPath: 'name' });
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => resolve(null);
      request.onblocked = () => resolve(null);
    } catch {
      resolve(null);
    }
  });
  return opening;
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

const isDraft = (value: unknown): value is Draft => {
  const draft = value as Partial<Draft> | null | undefined;
  return typeof draft === 'object' && draft !== null && typeof draft.name === 'string' && typeof draft.revision === 'number' && typeof draft.at === 'number' && draft.content !== undefined;
};

async function drafts(mode: IDBTransactionMode): Promise<IDBObjectStore | null> {
  return (await database())?.transaction('drafts', mode).objectStore('drafts') ?? null;
}

export async function readDraft(name: string): Promise<Draft | null> {
  const table = await drafts('readonly').catch(() => null);
  const found: unknown = table === null ? undefined : await done(table.get(name) as IDBRequest<unknown>).catch(() => undefined);
  return isDraft(found) ? found : (inMemory.get(name) ?? null);
}

/** Returns whether the draft outlives the page. */
export async function saveDraft(draft: Draft): Promise<boolean> {
  inMemory.set(draft.name, draft);
  try {
    const table = await drafts('readwrite');
    if (table === null) return false;
    await done(table.put(draft));
    const all = (await done(table.getAll() as IDBRequest<unknown[]>)).filter(isDraft).sort((a, b) => b.at - a.at);
    for (const old of all.slice(DRAFTS_MAX)) await done(table.delete(old.name));
    return true;
  } catch {
    return false;
  }
}

export async function deleteDraft(name: string): Promise<void> {
  inMemory.delete(name);
  const table = await drafts('readwrite').catch(() => null);
  if (table !== null) await done(table.delete(name)).catch(() => undefined);
}
