/**
 * Results of panels in the worker: one result for each panel, one subscription for all panels of an equal live query.
 *
 * Ids are below zero; those of questions on Ask are times. A subscription ends `LINGER_MS` after its last panel, so that a change
 * of the dashboard does not ask its queries anew.
 */
import { signal } from '@preact/signals';
import { paintWith, post } from '../client.ts';
import { formatJson } from '../json.ts';
import { type Picture, VIEW, type View } from '../picture.ts';
import type { Question } from '../protocol.ts';
import type { Pane } from '../tabs.ts';

const LINGER_MS = 300;
let lastId = 0;
const nextId = () => (lastId -= 1);

interface Subscription {
  id: number;
  panels: number;
  ending: ReturnType<typeof setTimeout> | undefined;
}

const subscriptions = new Map<string, Subscription>();

/** Questions with the same key share a subscription. */
export const keyOf = (question: Question): string => formatJson([question.saved ?? null, question.text, question.dialect, question.parameters]);

/** The subscription of a question, and the function that leaves it. */
export function subscribe(question: Question): { id: number; leave(): void } {
  const key = keyOf(question);
  let found = subscriptions.get(key);
  if (found === undefined) {
    found = { id: nextId(), panels: 0, ending: undefined };
    subscriptions.set(key, found);
    post({ do: 'ask', result: found.id, question });
    // Its panels are drawn, not the subscription itself.
    post({ do: 'view', result: found.id, view: { ...VIEW, visible: false } });
  }
  const subscription = found;
  clearTimeout(subscription.ending);
  subscription.panels += 1;
  const leave = () => {
    subscription.panels -= 1;
    if (subscription.panels > 0) return;
    subscription.ending = setTimeout(() => {
      subscriptions.delete(key);
      post({ do: 'forget', result: subscription.id });
    }, LINGER_MS);
  };
  return { id: subscription.id, leave };
}

/** Asks a live query again that has ended or failed, for all its panels. */
export function askAgain(question: Question): void {
  const key = keyOf(question);
  const found = subscriptions.get(key);
  if (found !== undefined) post({ do: 'ask', result: found.id, question });
}

export function newPane(view: Partial<View>): Pane {
  return { id: nextId(), view: signal<View>({ ...VIEW, ...view }), picture: signal<Picture | null>(null), playing: signal(false) };
}

/** Draws a pane from now on; the result forgets it. */
export function drawPane(pane: Pane): () => void {
  const end = paintWith(pane.id, (picture) => {
    pane.picture.value = picture;
  });
  return () => {
    end();
    post({ do: 'forget', result: pane.id });
  };
}
