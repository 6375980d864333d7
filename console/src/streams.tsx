/** The streams: their figures, events and declarations. */
import type { JSX } from 'preact';

export function Streams(): JSX.Element {
  return (
    <main id="main" class="page streams-page">
      <h1>Streams</h1>
    </main>
  );
}
