/**
 * The page's state in the address's fragment: `#/ask?q=SELECT…&form=lines`, `#/ask/saved/NAME`, `#/streams/NAME`, `#/s/KEY`.
 *
 * Whatever the fragment has, reading it gives a valid state: unknown names are left out, unknown pages are Home. A state that
 * came by an address runs nothing by itself; that rule is the page's, and nothing here can state otherwise.
 */

import { isDots } from './text.ts';

export const PAGES = ['home', 'ask', 'dashboards', 'streams', 'views', 'jobs', 'operations', 'search', 'cluster'] as const;
export type Page = (typeof PAGES)[number];
export type Dialect = 'native' | 'bullet';

export const FORMS = ['table', 'json', 'line', 'area', 'bar', 'stacked', 'histogram', 'value', 'heat', 'top'] as const;
export type Form = (typeof FORMS)[number];

export interface State {
  page: Page;
  /** The name of what the page shows: a stream, a view. Of all pages but `home` and `ask`. */
  object?: string;
  /** The query's text, of page `ask`. */
  text?: string;
  /** The name of a saved query, of page `ask`. */
  saved?: string;
  /** The key of a short link: the state is another one, which the server has. The page is `home` until it is known. */
  link?: string;
  dialect?: Dialect;
  /** Values of `$1`, `$2` …, each as JSON text. */
  parameters?: string[];
  form?: Form;
  /** The column that a chart shows. */
  measure?: string;
  /** An IANA time zone. */
  zone?: string;
}

/** The first segments of the addresses of short links, and of saved queries below `ask`. */
const SHORT = 's';
const SAVED = 'saved';

/** The longest text that a link carries. */
export const TEXT_MAX = 100_000;

export function readFragment(fragment: string): State {
  const raw = fragment.startsWith('#') ? fragment.slice(1) : fragment;
  const mark = raw.indexOf('?');
  const path = mark < 0 ? raw : raw.slice(0, mark);
  const values = new URLSearchParams(mark < 0 ? '' : raw.slice(mark + 1));
  const [, name = '', ...rest] = path.split('/');
  if (name === SHORT) {
    const link = decoded(rest.join('/'));
    return link === '' || isDots(link) ? { page: 'home' } : { page: 'home', link };
  }
  const state: State = { page: PAGES.find((known) => known === name) ?? 'home' };
  const object = decoded(rest.join('/'));
  if (object !== '' && hasObjects(state.page)) state.object = object;
  const zone = values.get('zone');
  // The zone of a dashboard is its own, and does not become the reader's.
  if (zone !== null && isZone(zone) && state.page !== 'dashboards') state.zone = zone;
  if (state.page !== 'ask') return state;
  const saved = rest[0] === SAVED ? decoded(rest.slice(1).join('/')) : '';
  if (saved !== '') state.saved = saved;
  const text = values.get('q');
  if (text !== null && text.length <= TEXT_MAX) state.text = text;
  if (values.get('dialect') === 'bullet') state.dialect = 'bullet';
  const parameters = values.getAll('p');
  if (parameters.length > 0 && parameters.length <= 64) state.parameters = parameters;
  const form = FORMS.find((known) => known === values.get('form'));
  if (form !== undefined) state.form = form;
  const measure = values.get('measure');
  if (measure !== null) state.measure = measure;
  return state;
}

export function writeFragment(state: State): string {
  if (state.link !== undefined) return `#/${SHORT}/${encodeURIComponent(wellFormed(state.link))}`;
  const values = new URLSearchParams();
  if (state.page === 'ask') {
    if (state.text !== undefined) values.set('q', wellFormed(state.text));
    if (state.dialect === 'bullet') values.set('dialect', 'bullet');
    for (const value of state.parameters ?? []) values.append('p', wellFormed(value));
    if (state.form !== undefined) values.set('form', state.form);
    if (state.measure !== undefined) values.set('measure', wellFormed(state.measure));
  }
  if (state.zone !== undefined) values.set('zone', state.zone);
  const query = values.toString();
  const object = hasObjects(state.page) && state.object !== undefined && state.object !== '' ? `/${encodeURIComponent(wellFormed(state.object))}` : '';
  const saved = state.page === 'ask' && state.saved !== undefined && state.saved !== '' ? `/${SAVED}/${encodeURIComponent(wellFormed(state.saved))}` : '';
  return `#/${state.page === 'home' ? '' : state.page}${object}${saved}${query === '' ? '' : `?${query}`}`;
}

const hasObjects = (page: Page): boolean => page !== 'home' && page !== 'ask';

/** The text of a part of a path; empty where it is not encoded as such. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return '';
  }
}

/** An address can carry no lone surrogate: it becomes U+FFFD. */
export function wellFormed(text: string): string {
  return text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, '\ufffd');
}

export function isZone(zone: string): boolean {
  if (zone.length > 64) return false;
  try {
    new Intl.DateTimeFormat('en', { timeZone: zone });
    return true;
  } catch {
    return false;
  }
}
