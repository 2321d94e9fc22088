"""Calls over NumPy's public surface, and what becomes of each: `python tests/numpy_surface.py` writes docs/numpy.md.

A topic is a line that ends in a colon; its calls follow, apart by semicolons. `SETx[0]=1` is a statement after which x is
returned. Ufuncs and reductions have calls of one form for each dtype.
"""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "numpy.md"
TAPE, CALLED, INTERPRETED, REFUSED = "planned", "calls NumPy", "interpreted", "refused"

UFUNCS = {n: sorted({f.__name__ for f in vars(np).values() if isinstance(f, np.ufunc) and f.nin == n and f.nout == 1
                     and not f.signature and f.__name__ != "isnat"}) for n in (1, 2)}
_REDUCTIONS = """
sum prod max min mean var std any all argmax argmin ptp median nansum nanprod nanmax nanmin nanmean nanstd nanvar nanargmax
nanargmin nanmedian cumsum cumprod nancumsum nancumprod count_nonzero sort argsort cumulative_sum cumulative_prod average"""
REDUCTIONS = _REDUCTIONS.split()
_ONE, _TWO, _OVER = "x f4 f2 i i4 u1 u8 b c n0 z s L", "x,y x,v f4,f4 f4,1.5 i,i i4,2 u1,u1 u1,-1 u8,i b,b c,x n0,n0 s,s x,L", (
    "x f4 f2 i i4 u1 u8 b c nan e t")

TABLE = r"""
clip:
    np.clip(x,-1,1) ; np.clip(i,-1,1) ; np.clip(u1,1,3) ; np.clip(f4,-.5,.5) ; np.clip(x,None,1) ; np.clip(x,v,1) ;
    np.clip(x,-1,1,out=o) ; x.clip(-1,1) ; x.clip(min=0) ; x.clip(max=0) ; i1.clip(-2,300) ; np.clip(x,max=1) ;
    np.clip(i4,0.5,2.5) ; np.clip(x,1,-1) ; np.clip(fl,0,1) ; np.clip(nan,0,1) ; np.clip(c,0,1) ; np.clip(b,0,1)
np.round:
    np.round(x) ; np.round(x,2) ; np.round(f4,1) ; np.round(i,-1) ; x.round(1) ; np.round(fl) ; np.round(c,1) ;
    np.around(x,1) ; np.round(x,decimals=3,out=o) ; np.round(f2,1) ; np.round(b) ; round(fl,1) ; round(n0) ; np.round(x,-1) ;
    np.round(i) ; np.round(u1,-1)
np.fix:
    np.fix(x) ; np.fix(f4) ; np.fix(i) ; np.fix(fl)
np.nan_to_num:
    np.nan_to_num(nan) ; np.nan_to_num(nan,nan=1.0) ; np.nan_to_num(nan,posinf=3) ; np.nan_to_num(i) ; np.nan_to_num(c) ;
    np.nan_to_num(nan,copy=False)
np.real:
    np.real(c) ; np.real(x) ; c.real ; x.real ; np.imag(c) ; np.imag(x) ; c.imag ; x.imag ; np.real(2j) ; np.real_if_close(c) ;
    np.real_if_close(x) ; np.real_if_close(c.real+0j)
np.angle:
    np.angle(c) ; np.angle(c,deg=True) ; np.angle(x) ; np.angle(1j)
np.sinc:
    np.sinc(x) ; np.sinc(f4) ; np.sinc(fl) ; np.i0(x) ; np.i0(f4)
np.interp:
    np.interp(x,si,si) ; np.interp(fl,si,si) ; np.interp(x,si,si,left=0) ; np.interp(x,si,si,period=2.0) ;
    np.interp(v,[0.0,1.0],[1.0,2.0])
np.unwrap:
    np.unwrap(x) ; np.unwrap(x,axis=0) ; np.unwrap(v,period=3.0)
np.polyval:
    np.polyval(v,x) ; np.polyval([1,2,3],x) ; np.polyval(v,fl) ; np.polyval([1,2,3],2)
np.isclose:
    np.isclose(x,y) ; np.isclose(x,x) ; np.allclose(x,x) ; np.allclose(x,y,atol=1) ; np.isclose(nan,nan,equal_nan=True) ;
    np.array_equal(x,y) ; np.array_equal(x,x) ; np.array_equal(nan,nan,equal_nan=True) ; np.array_equiv(x,v) ;
    np.isclose(i,i) ; np.isclose(c,c)
np.isposinf:
    np.isposinf(x) ; np.isneginf(x) ; np.iscomplexobj(x) ; np.isrealobj(x) ; np.isscalar(s) ; np.isscalar(x) ;
    np.iscomplex(c) ; np.isreal(c) ; np.iscomplex(x)
np.trace:
    np.trace(x) ; np.trace(st,axis1=1,axis2=2) ; x.trace() ; np.trace(x,1) ; np.trace(i4) ; np.linalg.trace(st) ; np.trace(b)
np.cov:
    np.cov(x) ; np.cov(x,rowvar=False) ; np.cov(v,w) ; np.corrcoef(x) ; np.corrcoef(v,w) ; np.cov(x,ddof=0) ;
    np.cov(x,bias=True) ; np.cov(x,aweights=pos) ; np.cov(x,fweights=k5) ; np.corrcoef(x,rowvar=False)
np.trapezoid:
    np.trapezoid(x) ; np.trapezoid(x,v) ; np.trapezoid(x,dx=.5,axis=0) ; np.trapezoid(v,si[:5])
np.diff:
    np.diff(x) ; np.diff(x,axis=0) ; np.diff(x,n=2) ; np.diff(v,prepend=0) ; np.diff(i) ; np.diff(b) ; np.diff(u1) ;
    np.ediff1d(v) ; np.ediff1d(x,to_begin=0.0) ; np.ediff1d(i,to_end=[1]) ; np.diff(x,n=0)
np.gradient:
    np.gradient(v) ; np.gradient(x) ; np.gradient(x,axis=0) ; np.gradient(v,2.0) ; np.gradient(v,edge_order=2) ;
    np.gradient(x,1.0,2.0) ; np.gradient(v,si[:5]) ; np.gradient(f4) ; np.gradient(i)
np.reshape:
    np.reshape(x,(5,4)) ; np.reshape(x,-1) ; x.reshape(2,-1) ; x.reshape((10,2)) ; np.reshape(x,(5,4),order='F') ;
    x.T.reshape(20) ; np.reshape(x,shape=(5,4)) ; x.reshape(3,7) ; np.reshape(x,(5,4),copy=True) ; x.reshape(-1,5,order='A')
np.ravel:
    np.ravel(x) ; x.ravel() ; x.flatten() ; np.ravel(x,'F') ; x.ravel(order='K') ; x.T.ravel() ; x.flatten('F') ;
    x.T.flatten(order='K')
np.transpose:
    np.transpose(x) ; x.T ; t.transpose(2,0,1) ; t.transpose((1,0,2)) ; np.transpose(t,(2,0,1)) ; t.mT ;
    np.matrix_transpose(t) ; np.permute_dims(t,(1,0,2)) ; x.transpose() ; t.swapaxes(0,1) ; np.swapaxes(t,0,-1) ;
    np.moveaxis(t,0,-1) ; np.moveaxis(t,(0,1),(1,0)) ; np.rollaxis(t,2) ; np.linalg.matrix_transpose(t)
np.expand_dims:
    np.expand_dims(x,0) ; np.expand_dims(x,(0,2)) ; np.squeeze(x[None]) ; x[None].squeeze() ; x[:,None].squeeze(1) ;
    np.squeeze(x,0) ; np.squeeze(x[None],axis=(0,))
np.broadcast_to:
    np.broadcast_to(v,(4,5)) ; np.broadcast_to(fl,(2,2)) ; np.broadcast_arrays(v,x) ; np.broadcast_shapes((3,1),(1,4)) ;
    np.broadcast_to(x,(2,4,5)) ; np.broadcast_shapes(x.shape,v.shape) ; np.broadcast(x,v).shape
np.atleast_1d:
    np.atleast_1d(x) ; np.atleast_2d(v) ; np.atleast_3d(x) ; np.atleast_1d(s) ; np.atleast_2d(v,w) ; np.atleast_2d(fl) ;
    np.atleast_1d(L) ; np.atleast_3d(v)
np.flip:
    np.flip(x) ; np.flip(x,1) ; np.flip(x,(0,1)) ; np.fliplr(x) ; np.flipud(x) ; np.rot90(x) ; np.rot90(x,2) ;
    np.rot90(t,axes=(1,2)) ; np.rot90(x,-1)
np.split:
    np.split(x,2) ; np.split(x,[1,3]) ; np.split(x,5,axis=1) ; np.array_split(v,3) ; np.hsplit(x,5) ; np.vsplit(x,2) ;
    np.dsplit(t,2) ; np.split(v,2) ; np.array_split(x,[1,3],axis=1) ; np.unstack(x) ; np.unstack(x,axis=1)
np.diagonal:
    np.diagonal(x) ; x.diagonal() ; np.diagonal(t,axis1=1,axis2=2) ; np.diagonal(x,offset=1) ; np.diag(v) ; np.diag(x) ;
    np.diag(v,1) ; np.diagflat(x) ; np.linalg.diagonal(st) ; np.diag(x,-1)
windows:
    np.lib.stride_tricks.sliding_window_view(v,3) ; np.lib.stride_tricks.sliding_window_view(x,(2,2)) ;
    np.lib.stride_tricks.sliding_window_view(x,2,axis=1) ; np.lib.stride_tricks.as_strided(v,(3,3),(8,8))
shape, dtype and attributes:
    np.ndim(x) ; np.shape(x) ; np.size(x) ; np.size(x,0) ; x.ndim ; x.shape ; x.size ; len(x) ; x.itemsize ; x.nbytes ;
    x.dtype ; np.ndim(s) ; np.shape(L) ; np.size(L) ; x.dtype.kind=='f' ; x.dtype==np.float64 ; x.flags.c_contiguous ;
    x.dtype.itemsize ; x.flat[3] ; x.dtype.name=='float64' ; x.dtype is np.dtype(np.float64)
np.zeros:
    np.zeros(3) ; np.zeros((2,3)) ; np.zeros(3,int) ; np.zeros((2,3),dtype=np.float32) ; np.ones(3) ;
    np.ones((2,2),dtype=bool) ; np.full(3,2.0) ; np.full((2,2),7) ; np.full((2,2),7,dtype='f4') ; np.empty((0,3)) ;
    np.ones_like(i) ; np.full_like(x,3) ; np.full_like(i,2.7) ; np.zeros_like(x,dtype=int) ; np.zeros_like(x,shape=(2,)) ;
    np.zeros(x.shape) ; np.zeros(x.shape[0]) ; np.full(3,v[0]) ; np.full((2,5),v) ; np.zeros((2,3),order='F') ;
    np.zeros(np.int64(3)) ; np.zeros((2,2),complex) ; np.zeros(3,dtype='u1') ; np.zeros(3,dtype='float32') ; np.zeros(k5) ;
    np.zeros(3,dtype=x.dtype) ; np.zeros([2,3]) ; np.zeros_like(x)
np.arange:
    np.arange(5) ; np.arange(2,8) ; np.arange(2,8,2) ; np.arange(0,1,.25) ; np.arange(5,dtype=np.float32) ; np.arange(5.0) ;
    np.arange(len(x)) ; np.arange(x.shape[0],0,-1) ; np.arange(fl) ; np.arange(0) ; np.arange(5,2) ; np.arange(3,dtype='i4') ;
    np.arange(0,fl,.5) ; np.arange(s) ; np.arange(1,10,0)
np.linspace:
    np.linspace(0,1,5) ; np.linspace(0,1) ; np.linspace(0,1,5,endpoint=False) ; np.linspace(0,1,5,retstep=True) ;
    np.linspace(0,10,5,dtype=int) ; np.linspace(v,w,3) ; np.logspace(0,1,5) ; np.geomspace(1,10,5) ; np.linspace(fl,2,7) ;
    np.logspace(0,1,5,base=2) ; np.linspace(0,1,5,dtype=np.float32) ; np.linspace(0,1,1) ; np.linspace(0,1,0) ;
    np.linspace(1+1j,2,4)
np.eye:
    np.eye(3) ; np.eye(3,4) ; np.eye(3,k=1) ; np.eye(3,dtype=int) ; np.identity(3) ; np.tri(3) ; np.tri(3,4,1) ; np.tril(x) ;
    np.triu(x,1) ; np.tril(x,-1) ; np.triu(st) ; np.tril(i) ; np.triu(b) ; np.identity(2,dtype=np.float32) ; np.tril(v) ;
    np.tri(3,dtype=bool)
np.meshgrid:
    np.meshgrid(v,k5) ; np.meshgrid(v,k5,indexing='ij') ; np.meshgrid(v,k5,sparse=True) ; np.mgrid[0:3,0:4] ;
    np.mgrid[0:1:5j] ; np.ogrid[0:3,0:4] ; np.r_[v,0,w] ; np.c_[v,w] ; np.indices((2,3)) ; np.r_[1:4] ; np.ix_(k5,k5) ;
    x[np.ix_(k5,k5)] ; np.r_['0,2',v,w] ; np.indices((2,3),sparse=True) ; np.mgrid[0:1:0.3]
np.vander:
    np.vander(v) ; np.vander(v,3) ; np.vander(v,3,increasing=True) ; np.vander(i1)
np.copy:
    np.copy(x) ; x.copy() ; np.array(x) ; np.asarray(x) ; np.asarray(L) ; np.array([1,2,3]) ; np.array([[1,2],[3,4.0]]) ;
    np.array([x[0],x[1]]) ; np.array(x,dtype='f4') ; np.asarray(x,dtype=np.float32) ; np.ascontiguousarray(x.T) ;
    np.asfortranarray(x) ; np.asanyarray(x) ; np.array(fl) ; np.array([fl,s]) ; np.array(x,ndmin=3) ; np.array([],dtype=int) ;
    np.require(x,np.float32) ; np.asarray_chkfinite(x) ; np.asarray_chkfinite(nan) ; np.array([v,w]).T ; np.array([x[0,0],2]) ;
    np.array((1,2.5)) ; np.asarray(i,float) ; np.array(x,copy=False) ; np.array([True,False]) ;
    np.array([1,2],dtype=np.uint8) ; np.asarray(x.tolist()) ; np.array([s,x.shape[0]]) ; np.copy(x,order='F') ;
    np.array([1+2j])
np.astype:
    x.astype(np.float32) ; x.astype('i4') ; x.astype(int) ; i.astype(bool) ; x.astype(complex) ; np.astype(x,np.float32) ;
    x.astype(np.float32,copy=False) ; b.astype(float) ; c.astype(float) ; x.astype(x.dtype) ; x.astype(f4.dtype) ;
    i.astype('u1') ; x.astype(np.float64,copy=False) ; i4.astype(np.int8,casting='safe') ; x.astype(np.uint8) ;
    x.astype('float16') ; x.astype(np.longdouble) ; x.astype(str) ; x.astype(dtype=np.float32) ; x.astype(object)
np.concatenate:
    np.concatenate([x,y]) ; np.concatenate((x,y),axis=1) ; np.concatenate([x,y],axis=None) ; np.stack([x,y]) ;
    np.stack([x,y],axis=-1) ; np.vstack([x,v]) ; np.hstack([x,y]) ; np.dstack([x,y]) ; np.column_stack([v,w]) ;
    np.block([[x,y],[y,x]]) ; np.append(v,1) ; np.append(x,y,axis=0) ; np.concatenate([i,x]) ; np.concatenate([f4,i4]) ;
    np.concatenate([x,y],out=np.zeros((8,5))) ; np.concatenate([f4,x],dtype=np.float32) ; np.concat([x,y]) ;
    np.hstack([v,fl]) ; np.vstack((v,w)) ; np.append(v,L) ; np.concatenate([v,L]) ; np.concatenate([x,v]) ; np.stack([v,i1]) ;
    np.concatenate((v[:2],[fl],w[2:])) ; np.stack(L) ; np.concatenate(x) ; np.vstack(t) ; np.hstack(t) ;
    np.concatenate(t,axis=1) ; np.stack(t)
np.insert:
    np.insert(v,1,2.0) ; np.insert(x,1,v,axis=0) ; np.delete(v,1) ; np.delete(x,[0,1],axis=0) ; np.delete(v,slice(1,3)) ;
    np.delete(v,b1) ; np.insert(v,[0,2],[1,2]) ; np.delete(x,0,axis=1) ; np.delete(v,-1) ; np.delete(v,k5) ; np.delete(v,7)
np.pad:
    np.pad(x,1) ; np.pad(x,((1,2),(0,1))) ; np.pad(x,1,mode='edge') ; np.pad(x,1,mode='reflect') ;
    np.pad(x,1,constant_values=2) ; np.pad(v,(1,2),mode='wrap') ; np.pad(x,1,mode='symmetric') ;
    np.pad(v,2,mode='linear_ramp') ; np.pad(v,2,mode='mean') ; np.pad(v,2,mode='maximum') ; np.pad(x,[(1,1),(0,0)]) ;
    np.pad(i,1) ; np.pad(x,(1,2)) ; np.pad(t,((0,0),(1,1),(2,0)),'edge') ; np.pad(x,{0:1}) ;
    np.pad(v,2,'constant',constant_values=(1,2)) ; np.pad(v,2,mode='median')
np.roll:
    np.roll(x,1) ; np.roll(x,1,axis=0) ; np.roll(x,(1,2),axis=(0,1)) ; np.roll(v,-2) ; np.roll(x,s,axis=1) ; np.roll(i,7) ;
    np.roll(x,(1,2)) ; np.roll(x,1,axis=(0,1))
np.repeat:
    np.repeat(v,2) ; np.repeat(x,2,axis=1) ; x.repeat(3) ; np.repeat(v,[1,2,0,1,3]) ; np.tile(v,2) ; np.tile(x,(2,3)) ;
    np.tile(v,(2,1)) ; np.repeat(fl,3) ; np.repeat(x,2) ; np.repeat(k5,k5) ; np.tile(fl,3) ; np.resize(v,(3,3)) ;
    np.repeat(v,s) ; np.tile(x,2)
np.hanning:
    np.hanning(8) ; np.hamming(8) ; np.blackman(8) ; np.bartlett(8) ; np.kaiser(8,2.0) ; np.hanning(x.shape[1])
np.triu_indices:
    np.triu_indices(3) ; np.tril_indices(3,-1) ; np.triu_indices_from(x) ; np.diag_indices(3) ; np.diag_indices_from(sq) ;
    sq[np.triu_indices(4)] ; np.tril_indices_from(x,1) ; np.mask_indices(3,np.triu)
np.where:
    np.where(x>0,x,y) ; np.where(b,1,0) ; np.where(x>0) ; np.where(b,x,0) ; np.where(b,f4,0.0) ; np.where(b1,u1,-1) ;
    np.where(b,i,x) ; np.where(x>0,1.0,np.nan) ; np.where(True,x,y) ; np.where(fl>1,1,2) ; np.where(i,x,y) ; np.where(b,x,v) ;
    np.where(b,True,False) ; np.where(b,u1,300) ; np.where(b,c,x) ; np.where(x>0,L[0],L[1])
np.take:
    np.take(v,k5) ; np.take(x,k5,axis=0) ; x.take(k5) ; np.take(v,1) ; np.take(v,[7],mode='clip') ;
    np.take(v,[-7],mode='wrap') ; np.take(v,[9]) ; np.take(x,[[0,1],[2,3]],axis=1) ;
    np.take_along_axis(x,np.argsort(x,axis=1),axis=1) ; np.take(x,k5,axis=1,out=np.zeros((4,3))) ; np.take(L,k5) ;
    np.take(v,-1) ; np.take_along_axis(v,k5,None)
np.put:
    np.put(v,k5,1.0) ; np.put_along_axis(x,np.argmax(x,axis=1,keepdims=True),0,axis=1) ; np.putmask(x,m,y) ;
    np.place(v,m1,[1.0,2.0]) ; np.copyto(o,x) ; np.copyto(o,v,where=m) ; np.fill_diagonal(sq,0) ; v.put(k5,[1,2,3]) ;
    v.fill(2) ; np.copyto(oi,x) ; np.copyto(o,1) ; np.putmask(x,x>0,0) ; np.fill_diagonal(x,v[:4]) ; v.put([9],[1])
np.choose:
    np.choose(k5,[v[:3],w[:3],v[:3]]) ; np.select([x>0,x<0],[x,y]) ; np.select([x>1,x>0],[1,2],default=3) ; np.compress(b1,v) ;
    np.compress(b1,x,axis=1) ; np.extract(x>0,x) ; v.compress(b1) ; np.select([x>0],[x],default=np.nan) ;
    np.choose(k5,[1,2,3]) ; k5.choose([1,2,3]) ; np.select([b,m],[i,x],0) ; np.piecewise(v,[v<0,v>=0],[-1,1]) ;
    np.piecewise(v,[v<0,v>=0],[lambda q:-q,lambda q:q])
np.nonzero:
    np.nonzero(x>0) ; x.nonzero() ; np.flatnonzero(b) ; np.argwhere(b) ; np.nonzero(v) ; np.nonzero(b)[0] ; np.flatnonzero(i)
flat and other indices:
    np.unravel_index(7,(3,4)) ; np.unravel_index(k5,(3,4)) ; np.ravel_multi_index((k5,k5),(3,4)) ;
    np.unravel_index(np.argmax(x),x.shape) ; np.ravel_multi_index((1,2),(3,4))
np.searchsorted:
    np.searchsorted(si,x) ; np.searchsorted(si,fl) ; si.searchsorted(v,side='right') ; np.digitize(x,si) ;
    np.digitize(v,si,right=True) ; np.bincount(k) ; np.bincount(k,minlength=9) ; np.bincount(k5,weights=v[:3]) ;
    np.histogram(h) ; np.histogram(h,bins=5) ; np.histogram(h,bins=[0,.5,1]) ; np.histogram(h,bins=5,range=(0,1)) ;
    np.histogram2d(v,w,bins=3) ; np.histogram_bin_edges(h,5) ; np.histogram(h,bins='auto') ; np.histogram(h,5,density=True) ;
    np.histogram(h,5,weights=h) ; np.histogramdd(x,bins=2) ; np.searchsorted([1,2,3],2)
isin:
    np.isin(k,k5) ; np.isin(i,[1,2]) ; np.isin(x,v) ; np.isin(k,k5,invert=True) ; np.isin(fl,v) ; np.isin(k,3)
np.unique:
    np.unique(k) ; np.unique(k,return_counts=True) ; np.unique(k,return_index=True,return_inverse=True) ; np.unique(x) ;
    np.unique(i,axis=0) ; np.unique_values(k) ; np.unique_counts(k) ; np.unique_inverse(k) ; np.unique_all(k) ;
    np.unique(k,sorted=False) ; np.unique(b)
sets:
    np.intersect1d(k,k5) ; np.union1d(k,k5) ; np.setdiff1d(k,k5) ; np.setxor1d(k,k5) ; np.in1d(k,k5) ;
    np.intersect1d(k,k5,return_indices=True)
sorting:
    np.sort(x,axis=None) ; np.sort(x,kind='stable') ; np.argsort(v,kind='mergesort') ; np.argsort(x,axis=0,stable=True) ;
    np.partition(v,2) ; np.argpartition(v,2) ; np.lexsort((v,w)) ; np.sort_complex(v) ; v.sort() ; x.sort(axis=0) ;
    v.partition(2) ; v.argsort()[::-1] ; np.sort(v)[::-1] ; np.lexsort(x) ; np.trim_zeros(k) ; np.sort(c) ; np.argsort(-v) ;
    np.partition(v,(1,3)) ; sorted(L) ; np.sort(b) ; np.sort(f2) ; x.argsort(axis=None) ;
    np.argpartition(x,-2,axis=1)[:, -2:]
np.matmul:
    np.matmul(x,v) ; x@y.T ; np.dot(x,v) ; x.dot(y.T) ; np.inner(v,w) ; np.outer(v,w) ; np.vdot(v,w) ;
    np.tensordot(x,y,axes=2) ; np.tensordot(x,y,axes=([1],[1])) ; np.einsum('ij,ij->i',x,y) ; np.einsum('ij,kj',x,y) ;
    np.einsum('ii',sq) ; np.einsum('ij->ji',x) ; np.kron(v,k5) ; np.vecdot(x,y) ; np.convolve(v,w) ; np.convolve(v,k5,'same') ;
    np.correlate(v,w) ; np.cross(x[0,:3],y[0,:3]) ; np.cross(x[:,:3],y[:,:3]) ; np.linalg.multi_dot([x,y.T,x]) ;
    np.matvec(x,v) ; np.vecmat(v,x.T) ; i@i.T ; b@b.T ; c@c.T ; f4@f4.T ; i@x.T ; np.matmul(x,y.T,out=np.zeros((4,4))) ;
    np.dot(2,x) ; np.dot(v,w) ; v@w ; np.dot(x,y) ; np.matmul(x,y) ; np.matmul(2,x) ; t@st[0,:, :] ;
    np.einsum('...ij,...jk->...ik',st,st) ; np.einsum('i,j->ij',v,w) ; np.einsum('bij,bjk->bik',st,st,optimize=True) ;
    np.einsum(x,[0,1],y,[0,1]) ; np.linalg.outer(v,w) ; np.linalg.matmul(x,y.T) ; np.linalg.vecdot(x,y) ;
    np.linalg.cross(x[:,:3],y[:,:3]) ; np.linalg.tensordot(x,y,axes=2) ; np.inner(x,y) ; np.vdot(c,c) ; np.dot(u1,u1) ; i1@i1 ;
    u8@u8 ; f2@f2 ; np.einsum('ijk->k',t) ; np.einsum('ijk,k->ij',t,v[:4]) ; np.cross(v[:2],w[:2]) ; b1@b1 ; np.kron(x,sq) ;
    np.tensordot(t,st,axes=([2],[1])) ; np.einsum('i,i',i1,i1) ; np.vecdot(c,c)
norms:
    np.linalg.norm(x) ; np.linalg.norm(v) ; np.linalg.norm(x,axis=1) ; np.linalg.norm(v,1) ; np.linalg.norm(v,np.inf) ;
    np.linalg.norm(x,axis=1,keepdims=True) ; np.linalg.norm(x,'fro') ; np.linalg.norm(x,2) ; np.linalg.norm(x,'nuc') ;
    np.linalg.norm(c) ; np.linalg.norm(f4) ; np.linalg.norm(i) ; np.linalg.norm(v,3) ; np.linalg.norm(x,ord=1,axis=0) ;
    np.linalg.vector_norm(x,axis=0) ; np.linalg.matrix_norm(st) ; np.linalg.norm(v,0) ; np.linalg.norm(x,-np.inf) ;
    np.linalg.norm(st,axis=(1,2)) ; np.linalg.norm(fl) ; np.linalg.norm(L)
np.linalg:
    np.linalg.solve(sq,sq) ; np.linalg.solve(sq,v[:4]) ; np.linalg.inv(sq) ; np.linalg.det(sq) ; np.linalg.slogdet(sq) ;
    np.linalg.cholesky(spd) ; np.linalg.qr(x) ; np.linalg.svd(x) ; np.linalg.svd(x,full_matrices=False) ;
    np.linalg.svd(x,compute_uv=False) ; np.linalg.eigh(spd) ; np.linalg.eigvalsh(spd) ; np.linalg.eig(sq) ;
    np.linalg.eigvals(sq) ; np.linalg.lstsq(x.T,v) ; np.linalg.lstsq(x.T,v,rcond=None) ; np.linalg.pinv(x) ;
    np.linalg.matrix_power(sq,3) ; np.linalg.matrix_rank(x) ; np.linalg.cond(sq) ; np.linalg.svdvals(x) ; np.linalg.inv(st) ;
    np.linalg.solve(st,st) ; np.linalg.tensorinv(np.eye(24).reshape(6,4,2,3,4),ind=2) ; np.linalg.eig(spd) ; np.linalg.inv(x) ;
    np.linalg.inv(np.zeros((3,3))) ; np.linalg.cholesky(-spd) ; np.linalg.eigh(spd)[0] ; np.linalg.qr(x)[1] ;
    np.linalg.svd(x).S ; np.linalg.eigh(spd).eigenvalues ; np.linalg.slogdet(st) ; np.linalg.qr(x,mode='r') ;
    np.linalg.eig(sq)[0] ; np.linalg.eig(c[:, :4]) ; np.linalg.cond(sq,1) ; np.linalg.pinv(x,rtol=1e-3) ;
    np.linalg.matrix_rank(x,rtol=1e-3) ; np.linalg.inv(sq.astype('f4')) ; np.linalg.inv(i[:, :4]+10*np.eye(4,dtype=int)) ;
    np.linalg.tensorsolve(np.eye(4).reshape(2,2,2,2),np.ones((2,2))) ; np.linalg.eigvals(spd) ; np.linalg.matrix_power(sq,-1) ;
    np.linalg.eigvals(sq).real ; np.linalg.eigvals(st) ; np.linalg.lstsq(x.T,v)[0]
np.fft:
    np.fft.fft(v) ; np.fft.ifft(v) ; np.fft.rfft(x) ; np.fft.irfft(c) ; np.fft.fft2(x) ; np.fft.ifft2(c) ; np.fft.fftn(t) ;
    np.fft.ifftn(t) ; np.fft.rfft2(x) ; np.fft.irfft2(c) ; np.fft.rfftn(t) ; np.fft.irfftn(t) ; np.fft.hfft(c2) ;
    np.fft.ihfft(v) ; np.fft.fftfreq(8) ; np.fft.rfftfreq(8,.5) ; np.fft.fftshift(x) ; np.fft.ifftshift(x) ;
    np.fft.fft(x,axis=0) ; np.fft.fft(v,n=8) ; np.fft.fft(v,norm='ortho') ; np.fft.fft(f4) ; np.fft.fft(c1) ; np.fft.fft(i) ;
    np.fft.rfft(v,16) ; np.fft.fftshift(x,axes=1) ; np.fft.ifft(np.fft.fft(v)).real ; np.fft.fft2(x,axes=(0,1)) ;
    np.fft.fft(b) ; np.fft.fft(f2) ; np.fft.irfft(np.fft.rfft(v),5) ; np.fft.fft(x,n=s)
polynomials:
    np.polyfit(v,w,2) ; np.roots([1,-3,2]) ; np.roots(v) ; np.poly([1,2]) ; np.polyder([1,2,3]) ; np.polyint([1,2,3]) ;
    np.polyadd([1,2],[3]) ; np.polymul([1,2],[1,3]) ; np.polysub([1,2],[3]) ; np.polydiv([1,2,1],[1,1]) ; np.poly1d([1,2])(x) ;
    np.polyfit(v,w,1) ; np.polyder(v) ; np.polyint(v) ; np.polymul(v,w) ; np.polyadd(v,k5) ; np.polysub(v,w) ;
    np.polynomial.polynomial.polyval(x,v) ; np.poly(v)
bits:
    np.packbits(u1) ; np.unpackbits(u1) ; np.packbits(b) ; np.unpackbits(u1[:,None],axis=1) ; np.packbits(b,axis=1) ;
    np.packbits(b1,bitorder='little') ; np.unpackbits(u1,count=9)
dtypes:
    np.result_type(x,f4) ; np.promote_types('f4','i4') ; np.can_cast('i4','f4') ; np.issubdtype(x.dtype,np.floating) ;
    np.isdtype(x.dtype,'real floating') ; np.min_scalar_type(10) ; np.finfo(x.dtype).eps ; np.finfo(np.float32).max ;
    np.iinfo(np.int32).max ; np.zeros(3,np.result_type(x,f4)) ; np.dtype('f4') ;
    np.zeros(2,np.promote_types(f4.dtype,i4.dtype)) ; np.common_type(x,f4) ; np.issubdtype(i.dtype,np.integer) ;
    np.iterable(x) ; np.isfortran(x) ; np.finfo(f4.dtype).tiny ; np.typename('f') ; np.mintypecode('f') ;
    np.can_cast(i4.dtype,np.int64) ; np.result_type(np.float32,1.0) ; np.issubdtype(np.float32,np.number) ;
    np.finfo(float).eps*x ; np.issubdtype(x.dtype,np.complexfloating)
functions over arrays:
    np.apply_along_axis(np.sum,1,x) ; np.apply_over_axes(np.sum,t,[0,2]) ; np.fromfunction(lambda p,q:p+q,(3,4)) ;
    np.vectorize(lambda q:q*2)(v) ; np.fromiter((q for q in L),float) ; np.frompyfunc(abs,1,1)(v)
np.modf:
    np.modf(x) ; np.frexp(x) ; np.divmod(x,y) ; np.divmod(i,3) ; divmod(i,3) ; np.modf(f4) ; np.modf(fl) ; np.frexp(f4) ;
    divmod(x,2.0) ; np.divmod(u1,3) ; divmod(s,3) ; np.modf(i) ; np.divmod(u8,u8) ; np.divmod(i,i) ; np.divmod(f4,2)
sharing:
    np.shares_memory(x,x) ; np.may_share_memory(x,y) ; np.shares_memory(x,x[1:])
iteration:
    [a for a in np.ndindex(2,2)] ; [p for _,p in np.ndenumerate(v)] ; sum([p for p in v.flat]) ; [q for q in np.nditer(v)]
arr.methods:
    x.item(3) ; x.tolist() ; z.item() ; x.item(1,2) ; x.view() ; x.view(np.int64) ; f4.view('i4') ; c.view(float) ; c.conj() ;
    x.conj() ; c.conjugate() ; v.tobytes() ; x.byteswap() ; x.T.copy() ; x.copy('F') ; x.nbytes ; x.fill(1) ;
    np.array(x.T,order='C') ; x.resize((2,2)) ; x.setflags(write=False) ; x.__array__() ; x.searchsorted(1) ; z.tolist() ;
    k5.tolist()[0] ; f4.view(np.float16) ; x.to_device('cpu') ; x.device ; x.getfield(np.float64) ; v.view(np.uint8) ;
    n0.item() ; n0.astype(np.float32) ; n0.shape ; n0.dtype ; n0.sum() ; n0.reshape(1) ; n0.T ; v.flat[1:3] ; n0.real ;
    n0.is_integer() ; ni.bit_count() ; n0.as_integer_ratio()
scalars:
    int(ni) ; float(n4) ; int(fl) ; complex(fl) ; bool(n0) ; abs(n0) ; n0+1 ; n4+1 ; ni//2 ; ni%2 ; n4*x ; x[0,0] ; x[0,0]+1 ;
    int(x[0,0]) ; float(f4[0,0]) ; np.float32(fl) ; np.int64(fl) ; np.float32(x) ; np.int32(x) ; np.bool_(s) ;
    np.complex128(fl) ; np.float64('nan') ; float('nan') ; float('inf') ; np.uint8(300) ; np.int8(s) ; min(L) ; max(s,3) ;
    sum(L) ; min(n0,2) ; max(x.shape) ; pow(s,3) ; pow(n0,2) ; math.sqrt(fl) ; math.floor(fl) ; math.pi*fl ; int(u8[0]) ;
    float(u8[0]) ; int(u1[0]) ; np.uint64(3)+1 ; s/2 ; s//2 ; fl%1 ; -fl ; s**-1 ; s**2 ; s<<2 ; ~s ; s and fl ; not s ;
    1 if s>1 else 2 ; s is None ; s==2 ; ni==3 ; np.float64(1)/0 ; np.inf ; np.nan ; np.pi ; np.e ; np.newaxis is None ;
    np.True_ ; np.euler_gamma ; True+True ; float(z) ; int(z) ; bool(z) ; len(L) ; x.shape[0]*2 ; np.int64(3)*np.float32(2) ;
    np.float32(3)*2.0 ; np.float32(3)+np.int32(1) ; np.int8(100)*np.int8(2) ; np.uint8(200)+100 ; bool(x) ; int(v) ;
    round(n4,1) ; n0.round(1) ; abs(s) ; s.bit_length() ; fl.is_integer() ; fl.hex() ; c2[0].real ; c2[0].conjugate() ;
    isinstance(s,int) ; math.isclose(fl,1.5) ; math.inf ; math.tau ; math.comb(5,2) ; math.log(fl,2) ; complex(1,2)*2
subscripts:
    x[0] ; x[-1] ; x[1:3] ; x[:,1] ; x[::2] ; x[::-1] ; x[...,0] ; x[None] ; x[k5] ; x[b] ; x[x>0] ; x[k5,k5] ; x[[0,1]] ;
    x[(0,1)] ; x[k5[:,None],k5] ; x[1:,[0,2]] ; x[m.any(axis=1)] ; x[:,b1] ; v[b1] ; v[-1] ; x[9] ; v[[7]] ; x[0,0] ; v[fl] ;
    x[s] ; x[s,...] ; x[np.newaxis,:] ; v[ni] ; x[slice(1,3)] ; x[b1] ; x[True] ; x[k5,::-1] ; x[::-1,k5] ; t[0,:,k5] ;
    t[k5[:2],:,k5[:2]] ; v[k5] ; v[k5==1] ; v[()] ; z[()] ; x[:0] ; x[5:2] ; x[-100:100] ; x[1:3,1:3] ; x[~b] ;
    x[np.array([True,False,True,False])] ; x[k5.tolist()] ; t[...,k5,:] ; x[:, None, :] ; x[b,None] ; v[u1[:3]] ;
    v[k5.astype('u1')] ; L[1] ; T[-1] ; L[0:2] ; x[0][1] ; x[i1[:2]]
operators:
    x+y ; x-v ; x*2 ; x/y ; x//y ; x%y ; x**2 ; x**y ; x**0.5 ; -x ; +x ; abs(x) ; ~i ; ~b ; i&3 ; m ; b&m ; b^m ; i<<1 ;
    i>>1 ; x>y ; x==y ; x!=0 ; x<=v ; x is y ; i**2 ; i**-1 ; 2**i ; u1-3 ; u1**2 ; i1*100 ; i1//2 ; i%3 ; i//0 ; x//0 ; -b ;
    b-m ; b+b ; b*2 ; b/2 ; c*x ; c==c ; c>c ; f4*2.5 ; f4+x ; f4*n0 ; f4*n4 ; f2*2 ; f2+f4 ; u8+i ; u8-1 ; u8*2 ; u8//2 ;
    u8%3 ; u8>i ; u8+1.5 ; i/2 ; i4/2 ; u1/2 ; i+fl ; divmod(x,y) ; x and y ; not x ; x+L ; x+T[0] ; 1/x ; 2-x ; 3//i4 ; 5%x ;
    1<<k5 ; x<y ; v[0]<y ; (x>0)&(y<0) ; (x>0)*1.0 ; x.T+x.T ; x[:,::-1]+x ; u1+u2 ; u4*u4 ; u1<<1 ; u1>>1 ; i2**2 ;
    (i*0+2)**(i*0+3) ; x+1j ; f4+1j ; c1+x ; c1*2 ; i+True ; b | m ; (x>0)&(y<0) | (x>2)
stores:
    SETx[0]=1 ; SETx[:,1]=v[:4] ; SETx[b]=0 ; SETx[k5]=v ; SETx[k5,k5]=1 ; SETx[x>0]*=2 ; SETx+=1 ; SETx*=v ; SETi+=1.5 ;
    SETi4//=2 ; SETx[1:]=x[:-1] ; SETx[:]=y ; SETx[...]=2 ; SETx[:,::2]+=1 ; SETi[0]=2.7 ; SETx[k5]+=1 ; SETu1-=3 ;
    SETu1+=300 ; SETx@=np.eye(5) ; SETx[0,0]=np.nan ; SETi[0,0]=np.nan ; SETx[9]=1 ; SETx[:,0]=v ; SETx**=2 ; SETi**=2 ;
    SETx/=2 ; SETi/=2 ; SETx%=2 ; SETv[b1]=w[b1] ; SETv[b1]=L ; SETx[None]=1 ; SETf4+=x ; SETi4+=i ; SETu8+=i ; SETu1+=u1 ;
    SETf4*=n0 ; SETx.T[0]=1 ; SETx.flat[3]=1 ; SETx.flat=0 ; SETx.real=1 ; SETc.imag=0 ; SETc[0]=x[0] ; SETx[0]=c[0] ;
    SETx[k5[:,None],k5]=0 ; SETx[:,b1]=0 ; SETx.shape=(5,4) ; SETx[b,]=1 ; SETv[k5]-=v[k5] ; SETv[::-1]=v ; SETv[1:]+=v[:-1] ;
    SETb |= m
"""


FLOATS = ("x", "y", "v", "w", "pos", "sq", "spd", "t", "st", "nan", "si", "h", "o", "o1", "z")  # float64, or `dtype`


def arguments(dtype: Any = None) -> dict[str, Any]:
    """Fresh arguments by the names that the calls use; those of FLOATS in another dtype where one is given."""
    rng = np.random.default_rng(3)
    x, square = rng.standard_normal((4, 5)), rng.standard_normal((4, 4))
    named: dict[str, Any] = {
        "x": x, "y": rng.standard_normal((4, 5)), "v": rng.standard_normal(5), "w": rng.standard_normal(5),
        "pos": np.abs(rng.standard_normal(5)) + 0.1, "f4": rng.standard_normal((4, 5)).astype("f4"),
        "f2": rng.standard_normal(5).astype("f2"), "i": rng.integers(-5, 6, (4, 5)),
        "i4": rng.integers(-5, 6, (4, 5)).astype("i4"), "b": rng.random((4, 5)) > 0.5, "b1": rng.random(5) > 0.5,
        "c": rng.standard_normal((4, 5)) + 1j * rng.standard_normal((4, 5)), "sq": square,
        "spd": square @ square.T + 4 * np.eye(4),
        "c1": (rng.standard_normal(5) + 1j).astype("c8"), "c2": rng.standard_normal(5) + 1j * rng.standard_normal(5),
        "t": rng.standard_normal((2, 3, 4)), "st": rng.standard_normal((3, 4, 4)),
        "nan": np.where(rng.random((4, 5)) > 0.7, np.nan, x),
        "k": rng.integers(0, 4, 6), "k5": np.array([0, 2, 1]), "s": 2, "fl": 1.5, "n0": np.float64(1.5), "n4": np.float32(2.5),
        "ni": np.int64(3), "z": np.array(2.5), "e": np.zeros((0, 5)), "o": np.zeros((4, 5)), "o1": np.zeros(5),
        "oi": np.zeros((4, 5), int), "m": rng.random((4, 5)) > 0.5, "m1": rng.random(5) > 0.5,
        "si": np.sort(rng.standard_normal(8)), "h": rng.random(50), "L": [1.0, 2.0, 3.0], "T": (1, 2, 3),
        "ks": np.array([3, 1, 2, 0]),
    }
    for small in ("i1", "i2", "u1", "u2", "u4", "u8"):
        named[small] = rng.integers(-5 if small[0] == "i" else 0, 9, 5).astype(small)
    if dtype is not None:
        kind = np.dtype(dtype).kind
        for name in FLOATS:
            value = np.nan_to_num(named[name] * 3) if kind in "iu" else named[name]
            named[name] = np.asarray(np.abs(value) if kind == "u" else value).astype(dtype)
    return named


def topics() -> Iterator[tuple[str, list[str]]]:
    """(topic, its calls)."""
    title = ""
    for line in TABLE.strip().splitlines():
        if not line.startswith(" "):
            title, listed = line.removesuffix(":"), []
        else:
            listed += [call for call in map(str.strip, line.split(" ;")) if call]
            if not line.rstrip().endswith(";"):
                yield title, listed
    for name in UFUNCS[1]:
        yield "ufuncs of one operand", [f"np.{name}({a})" for a in _ONE.split()] + [
            f"np.{name}(x, out=o)", f"np.{name}(x, where=m, out=o)", f"np.{name}(f4, dtype=np.float64)"]
    for name in UFUNCS[2]:
        yield "ufuncs of two operands", [f"np.{name}({a})" for a in _TWO.split()] + [
            f"np.{name}(x,y,out=o)", f"np.{name}(x,y,where=m,out=o)", f"np.{name}(f4,f4,dtype=np.float64)"]
        yield "methods of ufuncs", [
            f"np.{name}.reduce(x)", f"np.{name}.reduce(i,axis=1,keepdims=True)", f"np.{name}.reduce(b,axis=None)",
            f"np.{name}.reduce(x,initial=1)", f"np.{name}.accumulate(x)", f"np.{name}.accumulate(i,axis=-1)",
            f"np.{name}.outer(v,w)", f"np.{name}.at(v,k5,1)", f"np.{name}.at(x,k5,v)", f"np.{name}.reduceat(v,k5)"]
    for name in REDUCTIONS:
        forms = ["np.{0}({1}{2})"] + (["{1}.{0}({3})"] if hasattr(np.ndarray, name) else [])
        yield "reductions and scans", [
            form.format(name, a, k, k[2:]) for form in forms for a, k in (
                *[(a, ", axis=0") for a in _OVER.split()], ("x", ""), ("v", ""), ("x", ", axis=-1"),
                ("x", ", axis=1, keepdims=True"), ("t", ", axis=(0,2)"), ("x", ", axis=0, out=o1"), ("x", ", axis=5"))]


def names_in(call: str, known: list[str]) -> list[str]:
    """The arguments that a call names."""
    return [a for a in known if re.search(rf"(?<![\w.'\"]){a}(?![\w('\"]|\s*=[^=])", call)]


def functions(calls: list[str]) -> list[tuple[Any, list[str]]]:
    """(function, names of its arguments) of each call, from a file, so that there is source to read."""
    known = list(arguments())
    text, named = ["import math\n\nimport numpy as np\n"], []
    for n, call in enumerate(calls):
        changed = re.match(r"\w+", call.removeprefix("SET"))
        names = names_in(call.removeprefix("SET"), known)
        if call.startswith("SET") and changed is not None:
            names = list(dict.fromkeys([changed[0], *names]))
            body = f"    {call[3:]}\n    return {changed[0]}\n"
        else:
            body = f"    return {call}\n"
        text.append(f"\ndef f{n}({', '.join(names)}):\n{body}")
        named.append(names)
    with tempfile.NamedTemporaryFile("w", suffix=".py", prefix="surface_", delete=False) as file:
        file.write("\n".join(text))
    spec = util.spec_from_file_location(Path(file.name).stem, file.name)
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [(getattr(module, f"f{n}"), names) for n, names in enumerate(named)]


def difference(got: Any, want: Any) -> str:
    """What differs: type, dtype, shape or value; '' where nothing does."""
    if type(got) is not type(want):
        return f"{type(got).__name__}, not {type(want).__name__}"
    if isinstance(want, (tuple, list)):
        return "length" if len(got) != len(want) else "".join(map(difference, got, want))
    if isinstance(want, (np.ndarray, np.generic)):
        if got.dtype != want.dtype or got.shape != want.shape:
            return f"{got.dtype}{got.shape}, not {want.dtype}{want.shape}"
        if want.dtype.kind == "V":  # bfloat16
            near = np.allclose(got.astype(np.float32), want.astype(np.float32), rtol=0.02, atol=0.02, equal_nan=True)
            return "" if near else f"{got}, not {want}"
        if want.dtype.kind in "fc":
            near = {"e": 4e-3, "f": 1e-4, "F": 1e-4}.get(want.dtype.char, 1e-10)
            return "" if np.allclose(got, want, rtol=near, atol=near, equal_nan=True) else f"{got}, not {want}"
        return "" if np.array_equal(got, want) else f"{got}, not {want}"
    if isinstance(want, float):
        return "" if got == want or abs(got - want) < 1e-9 or (got != got and want != want) else f"{got}, not {want}"
    return "" if got is want or got == want else f"{got}, not {want}"


def outcome(function: Any, args: list[Any]) -> tuple[Any, type[BaseException] | None]:
    """(result, None), or (None, the exception's type)."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args), None
        except Exception as error:
            return None, type(error)


def judge(function: Any, names: list[str], dtype: Any = None) -> tuple[str, str]:
    """(what becomes of a call, how it differs from NumPy's)."""
    import prebake

    mine, theirs = arguments(dtype), arguments(dtype)
    want, error = outcome(function, [theirs[a] for a in names])
    jitted = prebake.jit(function)
    got, own = outcome(jitted, [mine[a] for a in names])
    if own is not None and issubclass(own, prebake.UnsupportedError):
        return "raises" if error else REFUSED, ""
    if own is not error:
        return INTERPRETED, f"raised {own}, not {error}"
    wrong = "" if error else difference(got, want) or "".join(difference(mine[a], theirs[a]) for a in names)
    if not jitted.stats()["jit"]:
        return "raises" if error else INTERPRETED, wrong
    return CALLED if "NumPy's own, with the GIL" in str(jitted.explain(*[mine[a] for a in names])) else TAPE, wrong


def surface(dtype: Any = None) -> tuple[dict[str, Counter[str]], dict[str, dict[str, list[str]]], list[str]]:
    """(counts by topic, calls by topic and fate, differences)."""
    counts: dict[str, Counter[str]] = {}
    calls: dict[str, dict[str, list[str]]] = {}
    wrong: list[str] = []
    for topic, listed in topics():
        for call, (function, names) in zip(listed, functions(listed), strict=True):
            fate, differs = judge(function, names, dtype)
            counts.setdefault(topic, Counter())[fate] += 1
            calls.setdefault(topic, {}).setdefault(fate, []).append(call)
            if differs:
                wrong.append(f"{call} ({fate}): {differs}")
    return counts, calls, wrong


def version() -> str:
    """Major and minor version of NumPy."""
    return ".".join(np.__version__.split(".")[:2])


def render(counts: dict[str, Counter[str]], calls: dict[str, dict[str, list[str]]]) -> str:
    """The text of docs/numpy.md."""
    total = sum(counts.values(), Counter[str]())
    fates = (TAPE, CALLED, INTERPRETED, REFUSED)
    lines = [
        "# What becomes of NumPy's functions", "",
        f"Generated by `python tests/numpy_surface.py` with NumPy {version()}; do not edit. Small calls over NumPy's namespaces,",
        "each in a function of its own, on the JIT: each gives NumPy's value, dtype, shape and exception",
        "(tests/test_numpy_surface.py). *planned*: runs in C from end to end; *calls NumPy*: the plan calls NumPy's function,",
        "with the GIL, and goes on; *interpreted*: the whole function runs in the interpreter, one NumPy call an instruction, at",
        "NumPy's speed; *refused*: UnsupportedError when it is compiled. Calls that raise in NumPy are left out. A call in one",
        "form says nothing about others: `fn.explain` does.", "",
        f"| of {sum(total[f] for f in fates)} calls | {' | '.join(fates)} |", "|---|---|---|---|---|",
        *[f"| {topic} | {' | '.join(str(c[f] or '') for f in fates)} |" for topic, c in counts.items()],
        f"| all | {' | '.join(str(total[f]) for f in fates)} |"]
    for fate in (REFUSED, INTERPRETED):
        lines += ["", f"## {fate.capitalize()}", ""]
        for topic, by_fate in calls.items():
            if fate in by_fate and (fate == REFUSED or len(by_fate[fate]) <= 40):
                listed = ", ".join(f"`{call.removeprefix('SET')}`" for call in by_fate[fate])
                lines.append(f"- {topic}: {listed}".replace("|", "\\|"))
            elif fate in by_fate:
                lines.append(f"- {topic}: {len(by_fate[fate])} calls, of dtypes and options seldom met")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    found, listed, faults = surface()
    PAGE.write_text(render(found, listed))
    print("\n".join(faults) or "no differences")
    sys.exit(bool(faults))
