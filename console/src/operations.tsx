/** Metrics, settings and running work of the server. */
import type { JSX } from 'preact';

export function Operations(): JSX.Element {
  return (
    <main id="main" class="page operations-page">
      <h1>Operations</h1>
    </main>
  );
}
