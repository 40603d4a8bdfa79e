# usage: lsp.py ROOT RENAMES : renames types by rust-analyzer
import json,subprocess,sys,re,os,threading,queue,time,urllib.parse
root=os.path.abspath(sys.argv[1]); renames=[l.split() for l in open(sys.argv[2]) if l.strip()]
p=subprocess.Popen(['rust-analyzer'],stdin=subprocess.PIPE,stdout=subprocess.PIPE,stderr=open('target/rename.err','w'),cwd=root)
q=queue.Queue()
def reader():
    while True:
        h={}
        while True:
            l=p.stdout.readline()
            if not l: q.put(None); return
            l=l.strip()
            if not l: break
            k,v=l.split(b':',1); h[k.lower()]=v.strip()
        q.put(json.loads(p.stdout.read(int(h[b'content-length']))))
threading.Thread(target=reader,daemon=True).start()
def send(o):
    b=json.dumps(o).encode(); p.stdin.write(b'Content-Length: %d\r\n\r\n'%len(b)+b); p.stdin.flush()
nid=0
status={'quiescent':False}
def handle(m):
    if 'method' in m and 'id' in m:
        if m['method']=='workspace/configuration': send({'jsonrpc':'2.0','id':m['id'],'result':[cfg for _ in m['params']['items']]})
        else: send({'jsonrpc':'2.0','id':m['id'],'result':None})
    elif m.get('method')=='experimental/serverStatus':
        status.update(m['params']); print('status',m['params'].get('health'),m['params'].get('quiescent'),str(m['params'].get('message'))[:200],flush=True)
def req(method,params,timeout=600):
    global nid; nid+=1; my=nid
    send({'jsonrpc':'2.0','id':my,'method':method,'params':params})
    t=time.time()
    while time.time()-t<timeout:
        m=q.get(timeout=timeout)
        if m is None: raise SystemExit('ra died')
        if 'method' not in m and m.get('id')==my: return m
        handle(m)
cfg={'cargo':{'buildScripts':{'enable':True},'targetDir':os.environ.get('RA_TARGET','target/rename'),'allTargets':True},'checkOnSave':False,'procMacro':{'enable':True},'cachePriming':{'enable':False},'files':{'excludeDirs':['target']}}
r=req('initialize',{'processId':None,'rootUri':'file://'+root,'capabilities':{'experimental':{'serverStatusNotification':True},'workspace':{'workspaceEdit':{'documentChanges':True,'resourceOperations':['rename']},'configuration':True},'textDocument':{'rename':{}}},'initializationOptions':cfg,'workspaceFolders':[{'uri':'file://'+root,'name':'r'}]})
send({'jsonrpc':'2.0','method':'initialized','params':{}})
t0=time.time()
while not status.get('quiescent'):
    m=q.get(timeout=3000); handle(m)
print('ready',time.time()-t0,flush=True)
def apply(edit):
    per={}
    for c in edit.get('documentChanges',[]):
        if 'kind' in c: print('  resource op',c); continue
        per.setdefault(c['textDocument']['uri'],[]).extend(c['edits'])
    for u,e in (edit.get('changes') or {}).items(): per.setdefault(u,[]).extend(e)
    n=0
    for u,es in per.items():
        f=urllib.parse.unquote(u[7:])
        if not f.startswith(root): print('  OUTSIDE',f); continue
        s=open(f).read(); ls=s.split('\n'); off=[0]
        for l in ls: off.append(off[-1]+len(l)+1)
        def pos(x):
            # utf-16 columns
            line=ls[x['line']]; c=0;i=0
            while c<x['character']: c+=2 if ord(line[i])>0xffff else 1; i+=1
            return off[x['line']]+i
        spans=sorted({(pos(e['range']['start']),pos(e['range']['end']),e['newText']) for e in es},reverse=True)
        for a,b,t in spans: s=s[:a]+t+s[b:]; n+=1
        open(f,'w').write(s)
        send({'jsonrpc':'2.0','method':'workspace/didChangeWatchedFiles','params':{'changes':[{'uri':u,'type':2}]}})
    return n,len(per)
done=open('target/renamed.txt','a')
for path,old,new in renames:
    if old==new: continue
    f=f'{root}/crates/{path}'
    if not os.path.exists(f): print('NO FILE',path,old); continue
    ls=open(f).read().split('\n')
    hit=[(i,l.index(old, re.match(r'\s*pub (?:unsafe )?(?:struct|enum|trait|type|union) ',l).end())) for i,l in enumerate(ls) if re.match(r'\s*pub (?:unsafe )?(?:struct|enum|trait|type|union) '+old+r'\b',l)]
    if not hit: print('NOT THERE',path,old,flush=True); continue
    i,c=hit[0]
    r=req('textDocument/rename',{'textDocument':{'uri':'file://'+f},'position':{'line':i,'character':c},'newName':new})
    if 'error' in r: print('ERR',path,old,new,r['error'].get('message'),flush=True); continue
    if not r.get('result'): print('NONE',path,old,flush=True); continue
    n,k=apply(r['result']); print(path,old,'->',new,n,'edits in',k,'files',flush=True); done.write(f'{path} {old} {new}\n'); done.flush()
req('shutdown',None); p.terminate()
