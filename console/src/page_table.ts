/** The pages: their titles, what the server must have for them, and how the file of the later ones is loaded. */
import { computed, signal } from '@preact/signals';
import type { JSX } from 'preact';
import { connection, getText } from './client.ts';
import type { Form, Page } from './fragment.ts';
import { parseJson } from './json.ts';
import { type Question, isObject } from './protocol.ts';

/** The pages of `pages.js`. */
export type LazyPage = Exclude<Page, 'home' | 'ask'>;
export type Pages = { [name in LazyPage]: () => JSX.Element };
/** What `pages.js` exports. */
export interface Later {
  pages: Pages;
  /** Adds a query to a dashboard, which is created if there is none of this name. */
  addQuery(dashboard: string, create: boolean, query: AddedQuery): Promise<void>;
}

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

export type Loading = Later | 'loading' | 'failed' | null;
/** How far `pages.js` is; null: nobody has asked for it. */
export const loading = signal<Loading>(null);
let tries = 0;

/** Loads `pages.js`, once. After a failure it may be called again. */
export function loadPages(): void {
  if (loading.value !== null && loading.value !== 'failed') return;
  loading.value = 'loading';
  // Browsers remember that a module could not be loaded, so each try has an address of its own.
  const address = tries === 0 ? './pages.js' : `./pages.js?try=${tries}`;
  tries += 1;
  import(address)
    .then((module: Later) => {
      loading.value = { pages: module.pages, addQuery: module.addQuery };
    })
    .catch(() => {
      loading.value = 'failed';
    });
}

/** `pages.js`, loaded if it is not yet; null if it cannot be. */
export function laterPages(): Promise<Later | null> {
  loadPages();
  return new Promise((resolve) => {
    const end = loading.subscribe((state) => {
      if (state === 'loading' || state === null) return;
      queueMicrotask(() => end());
      resolve(state === 'failed' ? null : state);
    });
  });
}
