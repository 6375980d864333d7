/** From a result to a view, an alert or a sink: which of them a question can become, and the forms that begin with it. */
import type { JSX } from 'preact';
import { streams } from './client.ts';
import { quoteName } from './examples.ts';
import type { Page } from './fragment.ts';
import { type Kept, sinkQuery, viewQuery } from './keep.ts';
import { isOffered } from './page_table.ts';
import { go } from './route.ts';
import type { Tab } from './tabs.ts';
import { announce } from './ui.tsx';

export type Target = 'view' | 'alert' | 'sink';

export interface Begin {
  query: string;
  leftOut: string[];
  /** A column for the condition of an alert; empty if none is known. */
  measure: string;
}

/** The form that opens next, and what it begins with. */
let next: (Begin & { target: Target }) | null = null;

/** What a form begins with, once; null: the reader opens it without a query. */
export function takeBegin(target: Target): Begin | null {
  const found = next?.target === target ? next : null;
  if (found !== null) next = null;
  return found;
}

const isStored = (name: string): boolean | undefined => streams.value?.streams.find((stream) => stream.name === name)?.stored;

/** The buttons of the menu *Keep*. One that is not possible says why and stays in reach of the keyboard. */
export function KeepItems({ tab, close }: { tab: Tab; close(): void }): JSX.Element {
  const question = tab.asked.value;
  const none: Kept = { why: 'No question has run.' };
  const view = question === null ? none : viewQuery(question, isStored);
  const sink = question === null ? none : sinkQuery(question, isStored);
  const items: Array<{ target: Target; page: Page; name: string; kept: Kept }> = [
    { target: 'view', page: 'views', name: 'Keep as view', kept: view },
    { target: 'alert', page: 'jobs', name: 'Make alert', kept: view },
    { target: 'sink', page: 'jobs', name: 'Into sink', kept: sink },
  ];
  return (
    <>
      {items.map(({ target, page, name, kept }) => {
        const why = isOffered(page) !== true ? 'This server has no data directory.' : 'why' in kept ? kept.why : null;
        const begin = () => {
          if (why !== null || 'why' in kept) {
            announce(why ?? '');
            return;
          }
          const measure = tab.picture.value?.measures[0];
          next = { target, ...kept, measure: measure === undefined ? '' : quoteName(measure) };
          close();
          go(page);
        };
        return (
          <button key={target} type="button" class="keep" aria-disabled={why !== null} onClick={begin}>
            <span>{name}</span>
            {why !== null && <span class="dim sub">{why}</span>}
          </button>
        );
      })}
    </>
  );
}

/** What is not in the query of a form, as it was on Ask. */
export function LeftOut({ of }: { of: Begin | null }): JSX.Element | null {
  if (of === null || of.leftOut.length === 0) return null;
  return <p class="dim">Left out, as it has no end and no order: {of.leftOut.join(', ')}. Use them in the query that reads the rows.</p>;
}
