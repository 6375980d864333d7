/**
 * Drafts, their last answers, and the history of questions, in the browser's IndexedDB.
 *
 * Where there is no IndexedDB (private windows, full disks), the same calls work on memory and `persistent` is false: the page says so.
 * Limits: `HISTORY_MAX` questions, `DRAFTS_MAX` drafts, `ANSWER_LENGTH_MAX` characters of an answer.
 */
import type { Dialect, Form } from './fragment.ts';

export const HISTORY_MAX = 200;
export const DRAFTS_MAX = 40;
export const ANSWER_LENGTH_MAX = 100_000;

/** The saved query that a draft is of, as it was when it was read or saved last. */
export interface SavedRef {
  name: string;
  revision: number;
  comment: string | null;
  text: string;
  dialect: Dialect;
  /** False: the server deletes it when it ends. */
  kept: boolean;
}

export interface Draft {
  id: number;
  text: string;
  dialect: Dialect;
  /** As typed. */
  parameters: string[];
  form: Form | null;
  measure: string | null;
  /** The last answer, as `LiveQuery.save` writes it. */
  answer: string | null;
  saved?: SavedRef | null;
}

export interface Past {
  text: string;
  dialect: Dialect;
  parameters: string[];
  /** When it ran last, in milliseconds since 1970. */
  at: number;
}

export interface Store {
  /** Whether what is saved outlives the page. */
  readonly persistent: boolean;
  drafts(): Promise<Draft[]>;
  saveDraft(draft: Draft): Promise<void>;
  deleteDraft(id: number): Promise<void>;
  /** The newest first. */
  history(): Promise<Past[]>;
  addHistory(past: Past): Promise<void>;
}

const NAME = 'swiftwater-console';

export async function openStore(factory: IDBFactory | undefined): Promise<Store> {
  if (factory === undefined) return new MemoryStore();
  try {
    return new DatabaseStore(await openDatabase(factory));
  } catch {
    return new MemoryStore();
  }
}

function openDatabase(factory: IDBFactory): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = factory.open(NAME, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore('drafts', { keyPath: 'id' });
      request.result.createObjectStore('history', { keyPath: 'text' });
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error('the database is blocked'));
  });
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

/** Whether a stored value has the shape of a draft: another version of the page may have written it. */
function isDraft(value: unknown): value is Draft {
  const draft = value as Partial<Draft> | null;
  return (
    typeof draft === 'object' && draft !== null && typeof draft.id === 'number' && typeof draft.text === 'string' && Array.isArray(draft.parameters)
  );
}

/** A stored reference; null where another version of the page wrote something else. */
export function readRef(value: unknown): SavedRef | null {
  const ref = value as Partial<SavedRef> | null | undefined;
  if (typeof ref !== 'object' || ref === null) return null;
  if (typeof ref.name !== 'string' || typeof ref.revision !== 'number' || typeof ref.text !== 'string') return null;
  return { name: ref.name, revision: ref.revision, comment: typeof ref.comment === 'string' ? ref.comment : null, text: ref.text, dialect: ref.dialect === 'bullet' ? 'bullet' : 'native', kept: ref.kept !== false };
}

function isPast(value: unknown): value is Past {
  const past = value as Partial<Past> | null;
  return typeof past === 'object' && past !== null && typeof past.text === 'string' && typeof past.at === 'number';
}

const newestFirst = (history: Past[]) => history.sort((a, b) => b.at - a.at);

class DatabaseStore implements Store {
  persistent = true;

  constructor(private readonly database: IDBDatabase) {}

  private table(name: string, mode: IDBTransactionMode): IDBObjectStore {
    return this.database.transaction(name, mode).objectStore(name);
  }

  async drafts(): Promise<Draft[]> {
    const all = await done(this.table('drafts', 'readonly').getAll());
    return all.filter(isDraft).slice(0, DRAFTS_MAX);
  }

  async saveDraft(draft: Draft): Promise<void> {
    const answer = draft.answer !== null && draft.answer.length > ANSWER_LENGTH_MAX ? null : draft.answer;
    await done(this.table('drafts', 'readwrite').put({ ...draft, answer }));
  }

  async deleteDraft(id: number): Promise<void> {
    await done(this.table('drafts', 'readwrite').delete(id));
  }

  async history(): Promise<Past[]> {
    return newestFirst((await done(this.table('history', 'readonly').getAll())).filter(isPast));
  }

  async addHistory(past: Past): Promise<void> {
    await done(this.table('history', 'readwrite').put(past));
    for (const old of (await this.history()).slice(HISTORY_MAX)) await done(this.table('history', 'readwrite').delete(old.text));
  }
}

export class MemoryStore implements Store {
  persistent = false;
  private readonly held = new Map<number, Draft>();
  private readonly past = new Map<string, Past>();

  async drafts(): Promise<Draft[]> {
    return [...this.held.values()];
  }

  async saveDraft(draft: Draft): Promise<void> {
    this.held.set(draft.id, draft);
  }

  async deleteDraft(id: number): Promise<void> {
    this.held.delete(id);
  }

  async history(): Promise<Past[]> {
    return newestFirst([...this.past.values()]);
  }

  async addHistory(past: Past): Promise<void> {
    this.past.set(past.text, past);
    for (const old of (await this.history()).slice(HISTORY_MAX)) this.past.delete(old.text);
  }
}
