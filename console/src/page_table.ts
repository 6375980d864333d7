/** The pages: their titles, what the server must have for them, and how the file of the later ones is loaded. */
import { computed, signal } from '@preact/signals';
import type { JSX } from 'preact';
import { connection, getText } from './client.ts';
import type { Form, Page } from './fragment.ts';
import { parseJson } from './json.ts';
import { type Question, isObject } from './protocol.ts';
import type { Tab } from './tabs.ts';
import { toast } from './ui.tsx';

/** The pages of `pages.js`. */
export type LazyPage = Exclude<Page, 'home' | 'ask'>;
/** What `pages.js` has beside the pages: dialogs and lists that other pages open. */
export interface Later {
  /** Saves the query of a tab: under its name, or after a form; `asNew`: after a form in any case. */
  save(tab: Tab, asNew: boolean): void;
  /** Shows the list of saved queries. */
  list(): void;
  /** Opens a saved query in a tab. It does not run. */
  open(name: string, origin: 'reader' | 'link' | 'other site'): void;
  KeepItems(props: { tab: Tab; close(): void }): JSX.Element;
  /** Adds a query to a dashboard; `create`: to a new one of this name. Throws a `Failure`. */
  addQuery(dashboard: string, create: boolean, query: AddedQuery): Promise<void>;
}
export type Pages = { [name in LazyPage]: () => JSX.Element };
/** A query and its picture, as Ask has them. */
export interface AddedQuery {
  question: Question;
  form: Form;
  measure: string | null;
}

/** In the order of the navigation. `feature` is one of the server's `features`; null: every server has what the page needs. */
export const TITLES: ReadonlyArray<{ page: Page; title: string; feature: string | null }> = [
  { page: 'home', title: 'Home', feature: null },
  { page: 'ask', title: 'Ask', feature: null },
  { page: 'dashboards', title: 'Dashboards', feature: 'saved' },
  { page: 'streams', title: 'Streams', feature: null },
  { page: 'views', title: 'Views', feature: 'views' },
  { page: 'jobs', title: 'Jobs & alerts', feature: 'sql' },
  { page: 'search', title: 'Search', feature: 'search' },
  { page: 'operations', title: 'Operations', feature: null },
  { page: 'cluster', title: 'Cluster', feature: 'cluster' },
];

export const titleOf = (page: Page): string => TITLES.find((entry) => entry.page === page)?.title ?? 'Home';

const ASK_MS = 5000;
/** The answer of `GET /v1/server`, for networks without WebSocket. */
const asked = signal<string[] | null>(null);

/** What the server has; null before it is known. */
export const features = computed<string[] | null>(() => connection.value?.hello?.features ?? asked.value);

/** Whether the server has what `page` needs; null before it is known. */
export function isOffered(page: Page): boolean | null {
  const feature = TITLES.find((entry) => entry.page === page)?.feature ?? null;
  if (feature === null) return true;
  return features.value === null ? null : features.value.includes(feature);
}

/** Whether the server has saved queries and short links. */
export const hasSaved = (): boolean => features.value?.includes('saved') === true;

/** Asks for the server's features by a plain call, where no connection reports them. */
export async function askFeatures(): Promise<void> {
  try {
    const facts = parseJson(await getText('v1/server'));
    const found = isObject(facts) && Array.isArray(facts.features) ? facts.features : [];
    asked.value = found.filter((name) => typeof name === 'string');
  } catch {
    // The pages stay hidden until the server reports what it has.
    if (features.value === null) setTimeout(() => void askFeatures(), ASK_MS);
  }
}

export type Loading = { pages: Pages; later: Later } | 'loading' | 'failed' | null;
/** How far `pages.js` is; null: nobody has asked for it. */
export const loading = signal<Loading>(null);
let tries = 0;
let load: Promise<void> = Promise.resolve();

/** Loads `pages.js`, once. After a failure it may be called again. */
export function loadPages(): Promise<void> {
  if (loading.value !== null && loading.value !== 'failed') return load;
  loading.value = 'loading';
  // Browsers remember that a module could not be loaded, so each try has an address of its own.
  const address = tries === 0 ? './pages.js' : `./pages.js?try=${tries}`;
  tries += 1;
  load = import(address)
    .then((module: { pages: Pages; later: Later }) => {
      loading.value = { pages: module.pages, later: module.later };
    })
    .catch(() => {
      loading.value = 'failed';
    });
  return load;
}

/** Runs `run` with what `pages.js` has, once it is loaded. */
export async function withLater(run: (later: Later) => void | Promise<void>): Promise<void> {
  await loadPages();
  const state = loading.value;
  if (state !== null && typeof state === 'object') await run(state.later);
  else toast('This part of the page cannot be loaded now. Try again.');
}
